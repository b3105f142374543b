"""Losses that no reader of the rest, person or program, could notice. Each has its reason.

A row is the last resort. First: does a line or cell of the format prove that a block is whole, and can the parser ask for it?
Does a blank value behind a key get an `Absent`, and a value whose key is gone a problem?
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Untellable:
    """A pattern of findings: of a parser, of a kind of loss (any if empty), by the text where they are found."""

    reason: str
    parser: str = ""
    kind: str = ""
    sample: str = ""
    where: str = ""
    what: str = ""


_LAST_CARD = "a list of keys has no line that ends it, and a single card none beside it to be compared with"
_A_LINE_A_CARD = "rows of which each is a card or a process, without a count or a line that ends them"

UNTELLABLE = (
    Untellable("what is left of a text whose name says that it is cut", sample=r"-cut\b|-cut-|trunc|trimm"),
    Untellable(_LAST_CARD, "cnmon", "tail", "/info$"),
    Untellable(_LAST_CARD, "efsmi", "tail", r"query|/q-"),
    Untellable(_LAST_CARD, "mx-smi", "tail", "summary|count-ecc|show-temperature"),
    Untellable(_LAST_CARD, "xpu-smi-kunlun", "tail", "query|/q-"),
    Untellable(_A_LINE_A_CARD, "efsmi", "tail", "monitor|dmon"),
    Untellable(_A_LINE_A_CARD, "ixsmi", "tail", "query"),
    Untellable(_A_LINE_A_CARD, "mx-smi", "tail", "list|monitor"),
    Untellable(_A_LINE_A_CARD, "xpu-smi", "tail", r"dump|query|/ps|topology-matrix|stats-json"),
    Untellable(_A_LINE_A_CARD, "xpu-smi-kunlun", "tail", r"places|/m-"),
    Untellable("the rule below each card is drawn like the last one", "efsmi", "tail", "table|default"),
    Untellable(
        "the slices stand between the cards and the processes, which 2.1.6 does not print", "mx-smi", "tail", "slices"
    ),
    Untellable("each part of a grid ends in the same rule", "xpu-smi", "tail", "stats|health|discovery|config"),
    Untellable(
        "a model that is too long goes on in lines of its own", "xpu-smi", "line", "table-2.0-wrapped", what=": model"
    ),
    Untellable("a list of engines has one line for each, without numbers", "xpu-smi", "line", "stats-json"),
    Untellable(
        "a list of processes has one line for each, and no count beside it", kind="line", what=r": processes\{\}"
    ),
    Untellable("what -t board ends with depends on the product", parser="npu-smi", kind="tail", sample="/board-card"),
    Untellable("the list of npu-smi -m has no end", parser="npu-smi", kind="tail", sample="/(?:doc950-)?m[-.]"),
    Untellable(
        "npu-smi watch prints turn after turn, and the last one counts",
        parser="npu-smi",
        sample="watch",
        where="^(?:from )?line [2-9]",
    ),
    Untellable(
        "answers one after another: nothing tells that one more followed",
        parser="npu-smi",
        kind="tail",
        sample="/(?:log|temp-power)$",
    ),
    Untellable(
        "whether the card's controller follows its chips depends on the product",
        parser="npu-smi",
        kind="tail",
        where=r"LM75A_TE|Voltage\(V\) +: 5\.04|Chip Name +: mcu",
    ),
    Untellable(
        "npu-smi before 23 closes its table behind each card, and lists no processes below it",
        parser="npu-smi",
        kind="tail",
        sample=r"default-910A-x8-22\.0\.3\.1",
    ),
    Untellable(
        "a text that is cut off already is cut off earlier: the same problem", "npu-smi", "tail", "/processes-many$"
    ),
    Untellable(
        "answers of hccn_tool one after another: nothing tells that one more followed",
        parser="hccn-tool",
        kind="tail",
        sample=r"/(?:flaps|link|facts)$|doc-nethealth|ip-|-8-cards-|stat-link_stat",
        what="gone$",
    ),
    Untellable(
        "an answer about a port of a 950 names the port; chip and die are in its command only",
        parser="hccn-tool",
        sample="/statistics-950$",
        where="^line 1|of line 1 ",
    ),
    Untellable("the list of mthreads-gmi -L has no end", parser="mthreads-gmi", kind="tail", sample="/names$"),
    Untellable("a list of pages has one line for each, and no count beside it", kind="line", what=r": retired_pages"),
    Untellable(
        "CSV has no closing line, and may list any number of cards", kind="tail", sample=r"csv", what=r": gone$"
    ),
    Untellable(
        "the whole line is one cell, since somebody removed the blanks: a line that is lost",
        where=r"^'(.{1,60}).*' of line \d+ '\1",
        what=r"gone$",
    ),
    Untellable(
        "a card that is listed twice: with the first row gone, the second is the card's",
        kind="line",
        sample="rocm-smi/concise-unknown-column",
    ),
    Untellable(
        "amd-smi ends its text without a closing line, and lists any number of cards, with as many keys as were asked for",
        parser="amd-smi",
        kind="tail",
        sample=r"list-text|metric-text|static-text|process-text|bad-pages-text|monitor|changelog|docs",
        what=r"gone$",
    ),
    Untellable(
        "the total over all blocks is printed above them, and left out only beside its parts",
        parser="amd-smi",
        what=r": ecc_\w+\{(all|cache)\} None -> ",
    ),
    Untellable(
        "of a list of clocks, engines or levels one line is one of as many as the chip has",
        parser="amd-smi",
        kind="line",
        what=r": (clock|engine|link_up)",
    ),
    Untellable(
        "a file of the kernel has no closing line, and a list of levels or pages as many as there are",
        parser="amdgpu-sysfs",
        what=r"(gone|: (retired_pages|clock_max_hertz|ecc_\w+)\S* .*)$",
        where=r"^(from )?line",
    ),
    Untellable(
        "another file of the card tells the same, and power_kind says which power it is",
        parser="amdgpu-sysfs",
        what=r": (power_watts|clock_hertz|temperature_celsius)",
    ),
    Untellable(
        "the chip's serial number stands where the board's is not printed",
        parser="amd-smi",
        where="product_serial",
        what=": serial ",
    ),
    Untellable(
        "a second name of the card stands elsewhere in its block",
        parser="amd-smi",
        where="(?i)market_name",
        what=": model ",
    ),
    Untellable(
        "a copy of a folder of the kernel contains files that no parser reads; a damaged path looks like one of them",
        parser="amdgpu-sysfs",
        sample="saved-|ttar",
        what=r"gone$",
    ),
)
