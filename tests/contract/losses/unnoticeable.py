"""Losses that no reader of the rest, person or program, could notice. Each has its reason.

A row is the last resort. First: does a line or cell of the format prove that a block is whole, and can the parser ask for it?
Does a blank value behind a key get an `Absent`, and a value whose key is gone a problem?
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Unnoticeable:
    """A pattern of findings: of a parser, of a kind of loss (any if empty), by the text where they are found."""

    reason: str
    parser: str = ""
    kind: str = ""
    sample: str = ""
    where: str = ""
    what: str = ""


_LAST_CARD = "a list of keys has no line that ends it, and a single card none beside it to be compared with"
_A_LINE_A_CARD = "rows of which each is a card or a process, without a count or a line that ends them"

UNNOTICEABLE = (
    Unnoticeable("what is left of a text whose name says that it is cut", sample=r"-cut\b|-cut-|trunc|trimm"),
    Unnoticeable(_LAST_CARD, "cnmon", "tail", "/info$"),
    Unnoticeable(_LAST_CARD, "efsmi", "tail", r"query|/q-"),
    Unnoticeable(_LAST_CARD, "mx-smi", "tail", "summary|count-ecc|show-temperature"),
    Unnoticeable(_LAST_CARD, "xpu-smi-kunlun", "tail", "query|/q-"),
    Unnoticeable(_A_LINE_A_CARD, "efsmi", "tail", "monitor|dmon"),
    Unnoticeable(_A_LINE_A_CARD, "ixsmi", "tail", "query"),
    Unnoticeable(_A_LINE_A_CARD, "mx-smi", "tail", "list|monitor"),
    Unnoticeable(_A_LINE_A_CARD, "xpu-smi", "tail", r"dump|query|/ps|topology-matrix|stats-json"),
    Unnoticeable(_A_LINE_A_CARD, "xpu-smi-kunlun", "tail", r"places|/m-"),
    Unnoticeable("the rule below each card is drawn like the last one", "efsmi", "tail", "table|default"),
    Unnoticeable(
        "the slices stand between the cards and the processes, which 2.1.6 does not print", "mx-smi", "tail", "slices"
    ),
    Unnoticeable("each part of a grid ends in the same rule", "xpu-smi", "tail", "stats|health|discovery|config"),
    Unnoticeable(
        "a model that is too long goes on in lines of its own", "xpu-smi", "line", "table-2.0-wrapped", what=": model"
    ),
    Unnoticeable("a list of engines has one line for each, without numbers", "xpu-smi", "line", "stats-json"),
    Unnoticeable(
        "a list of processes has one line for each, and no count beside it", kind="line", what=r": processes\{\}"
    ),
    Unnoticeable("what -t board ends with depends on the product", parser="npu-smi", kind="tail", sample="/board-card"),
    Unnoticeable("the list of npu-smi -m has no end", parser="npu-smi", kind="tail", sample="/(?:doc950-)?m[-.]"),
    Unnoticeable(
        "npu-smi watch prints turn after turn, and the last one counts",
        parser="npu-smi",
        sample="watch",
        where="^(?:from )?line [2-9]",
    ),
    Unnoticeable(
        "answers one after another: nothing shows that another followed",
        parser="npu-smi",
        kind="tail",
        sample="/(?:log|temp-power)$",
    ),
    Unnoticeable(
        "whether the card's controller follows its chips depends on the product",
        parser="npu-smi",
        kind="tail",
        where=r"LM75A_TE|Voltage\(V\) +: 5\.04|Chip Name +: mcu",
    ),
    Unnoticeable(
        "npu-smi before 23 closes its table behind each card, and lists no processes below it",
        parser="npu-smi",
        kind="tail",
        sample=r"default-910A-x8-22\.0\.3\.1",
    ),
    Unnoticeable(
        "a text that is cut off already is cut off earlier: the same problem", "npu-smi", "tail", "/processes-many$"
    ),
    Unnoticeable(
        "answers of hccn_tool one after another: nothing shows that another followed",
        parser="hccn-tool",
        kind="tail",
        sample=r"/(?:flaps|link|facts)$|doc-nethealth|ip-|-8-cards-|stat-link_stat",
        what="gone$",
    ),
    Unnoticeable(
        "an answer about a port of a 950 names the port; chip and die are in its command only",
        parser="hccn-tool",
        sample="/statistics-950$",
        where="^line 1|of line 1 ",
    ),
    Unnoticeable("the list of mthreads-gmi -L has no end", parser="mthreads-gmi", kind="tail", sample="/names$"),
    Unnoticeable("a list of pages has one line for each, and no count beside it", kind="line", what=r": retired_pages"),
    Unnoticeable(
        "CSV has no closing line, and may list any number of cards", kind="tail", sample=r"csv", what=r": gone$"
    ),
    Unnoticeable(
        "a line without blanks is one cell: a lost line",
        where=r"^'(.{1,60}).*' of line \d+ '\1",
        what=r"gone$",
    ),
    Unnoticeable(
        "a card that is listed twice: with the first row gone, the second is the card's",
        kind="line",
        sample="rocm-smi/concise-unknown-column",
    ),
    Unnoticeable(
        "amd-smi ends its text without a closing line, and lists any number of cards, with as many keys as were asked for",
        parser="amd-smi",
        kind="tail",
        sample=r"list-text|metric-text|static-text|process-text|bad-pages-text|monitor|changelog|docs",
        what=r"gone$",
    ),
    Unnoticeable(
        "the total over all blocks is printed above them, and left out only beside its parts",
        parser="amd-smi",
        what=r": ecc_\w+\{(all|cache)\} None -> ",
    ),
    Unnoticeable(
        "of a list of clocks, engines or levels one line is one of as many as the chip has",
        parser="amd-smi",
        kind="line",
        what=r": (clock|engine|link_up)",
    ),
    Unnoticeable(
        "a file of the kernel has no closing line, and a list of levels or pages as many as there are",
        parser="amdgpu-sysfs",
        what=r"(gone|: (retired_pages|clock_max_hertz|ecc_\w+)\S* .*)$",
        where=r"^(from )?line",
    ),
    Unnoticeable(
        "another file of the card has the same value, and power_kind names the power",
        parser="amdgpu-sysfs",
        what=r": (power_watts|clock_hertz|temperature_celsius)",
    ),
    Unnoticeable(
        "the chip's serial number stands where the board's is not printed",
        parser="amd-smi",
        where="product_serial",
        what=": serial ",
    ),
    Unnoticeable(
        "a second name of the card stands elsewhere in its block",
        parser="amd-smi",
        where="(?i)market_name",
        what=": model ",
    ),
    Unnoticeable(
        "a copy of a folder of the kernel contains files that no parser reads; a damaged path looks like one of them",
        parser="amdgpu-sysfs",
        sample="saved-|ttar",
        what=r"gone$",
    ),
)
