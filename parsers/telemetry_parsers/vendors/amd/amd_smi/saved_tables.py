"""Reads the table of amd-smi monitor, and the overview that amd-smi prints without a sub-command."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from telemetry_parsers import units
from telemetry_parsers.like_nvidia_smi import cells as patterns
from telemetry_parsers.like_nvidia_smi.cells import IGNORED, Column, column
from telemetry_parsers.like_nvidia_smi.table import CardTableShape, read_cards
from telemetry_parsers.model import Absent, Process
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import fact, identity, metric
from telemetry_parsers.text.answers import CUT_LINE, CUT_PROCESSES, SHORTENED, not_understood, wrong_cells
from telemetry_parsers.text.framed import is_rule
from telemetry_parsers.text.lines import Line, quote
from telemetry_parsers.vendors.amd.amd_smi.entries import Block, Entry, Path, printed_text
from telemetry_parsers.vendors.amd.amd_smi.keys import PROCESS_PATHS

# Maps each heading of `amd-smi monitor` to the key in its JSON.
_KEYS_BY_HEADING: Mapping[str, str] = {
    "POWER": "power_usage", "PWR_CAP": "max_power", "GPU_TEMP": "gpu_temperature", "GPU_T": "gpu_temperature",
    "EDGE_TEMP": "edge_temperature", "HOTSPOT_TEMP": "hotspot_temperature", "MEM_TEMP": "memory_temperature",
    "MEM_T": "memory_temperature", "GFX_UTIL": "gfx", "GFX%": "gfx", "GFX_CLOCK": "gfx_clk", "GFX_CLK": "gfx_clk",
    "MEM_UTIL": "mem", "MEM%": "mem", "MEM_CLOCK": "mem_clock", "MEM_CLK": "mem_clock", "ENC_UTIL": "encoder",
    "ENC%": "encoder", "DEC_UTIL": "decoder", "DEC%": "decoder", "ENC_CLOCK": "encoder_clock",
    "DEC_CLOCK": "decoder_clock", "VCLOCK": "vclock", "DCLOCK": "dclock", "SINGLE_ECC": "single_bit_ecc",
    "DOUBLE_ECC": "double_bit_ecc", "PCIE_REPLAY": "pcie_replay", "VRAM_USED": "vram_used",
    "VRAM_FREE": "vram_free", "VRAM_TOTAL": "vram_total", "VRAM%": "vram_percent", "VRAM_USAGE": "vram_usage",
    "PCIE_BW": "pcie_bw", "PVIOL": "pviol", "TVIOL": "tviol", "TVIOL_ACTIVE": "tviol_active",
    "PHOT_TVIOL": "phot_tviol", "VR_TVIOL": "vr_tviol", "HBM_TVIOL": "hbm_tviol", "GFX_CLKVIOL": "gfx_clkviol",
    "GFXCLK_PVIOL": "gfxclk_pviol", "GFXCLK_TVIOL": "gfxclk_tviol", "GFXCLK_TOTALVIOL": "gfxclk_totalviol",
    "LOW_UTILVIOL": "low_utilviol", "GTT_USAGE": "gtt_usage",
    "GTT_USED": "gtt_used", "GTT_FREE": "gtt_free", "GTT_TOTAL": "gtt_total", "GTT%": "gtt_percent", "TIMESTAMP": "timestamp", "XCP": "partition_id", "GPU": "gpu",
}  # fmt: skip
_PROCESS_PATHS_BY_HEADING: Mapping[str, Path] = {
    **{name.upper(): path for name, path in PROCESS_PATHS.items() if name not in ("name", "gpu")},
    "CU%": PROCESS_PATHS["cu_occupancy"],
    "MEM_USG": PROCESS_PATHS["mem_usage"],
    "SDMA": PROCESS_PATHS["sdma_usage"],
    "EVICT": PROCESS_PATHS["evicted_time"],
}
_PROCESS_TITLE = "PROCESS INFO:"
_NO_PROCESS = "no running processes detected"
_ELLIPSIS = "..."
_MAX_WORDS = 120


def read_table(lines: Sequence[Line], draft: Draft) -> list[Block]:
    """Return a block for each card or partition, with the values of its last row."""
    parser = _TableParser(draft)
    for line in lines:
        parser.read_line(line)
    return parser.blocks


def table_headings(line: Line) -> list[str]:
    """Return the headings in a heading line of `amd-smi monitor`, or [] for any other line."""
    words = line.text.split(maxsplit=_MAX_WORDS) if line.ended else []
    names = words[1:] if words[:1] == ["TIMESTAMP"] else words
    is_heading = (
        names[:1] == ["GPU"]
        and line.text.isupper()  # excludes rocm-smi, whose headings contain lower-case letters
        and any(name in _KEYS_BY_HEADING or name in _PROCESS_PATHS_BY_HEADING for name in names[1:])
    )
    return words if is_heading and all(name not in _PROCESS_PATHS_BY_HEADING for name in names[1:2]) else []


class _TableParser:
    """Parses tables of cards or processes line by line."""

    def __init__(self, draft: Draft) -> None:
        self.blocks: list[Block] = []
        self._draft = draft
        self._headings: list[str] = []
        self._group = 0
        self._blocks_by_slot: dict[tuple[int, str], Block] = {}
        self._first_blocks_by_index: dict[int, Block] = {}

    def read_line(self, line: Line) -> None:
        text = line.text.strip()
        headings = table_headings(line)
        if not text or text.upper() == _PROCESS_TITLE:
            return
        if headings:
            self._set_headings(headings)
        elif not line.ended:
            self._draft.add_problem(line.where, CUT_LINE)
        elif text == _ELLIPSIS:
            self._draft.add_problem(line.where, SHORTENED)
        elif not self._headings:
            self._draft.add_problem(line.where, f"this text precedes the table: {quote(text)}")
        elif not (self._read_process(line) if "PID" in self._headings else self._read_card(line)):
            self._draft.add_problem(line.where, wrong_cells(text))

    def _set_headings(self, headings: list[str]) -> None:
        self._headings = headings
        known_headings = _PROCESS_PATHS_BY_HEADING if "PID" in headings else _KEYS_BY_HEADING
        expected_headings = (*known_headings, "GPU", "NAME", "TIMESTAMP", "XCP")
        self._draft.add_unknown(*(name for name in headings if name not in expected_headings))

    def _read_card(self, line: Line) -> bool:
        cells = _join_cells(line.text.split(maxsplit=_MAX_WORDS))
        if len(cells) != len(self._headings):
            return False
        row = dict(zip(self._headings, cells, strict=True))
        index = units.integer(row["GPU"])
        if index is None:
            return False
        block = Block("gpu", index, f"GPU {index}")
        for heading, text in row.items():
            block.entries += _cell_entries(heading, text, f"{line.where} {heading}")
        slot = (index, row.get("XCP", ""))
        if slot in self._blocks_by_slot:
            self._blocks_by_slot[slot].entries[:] = block.entries
        else:
            self._blocks_by_slot[slot] = block
            self._add_block(block, index)
        return True

    def _read_process(self, line: Line) -> bool:
        """Read a row such as `0  my app  2022  0.0 B …` from right to left."""
        words = line.text.split(maxsplit=_MAX_WORDS)
        name_index = self._headings.index("NAME") if "NAME" in self._headings else 0
        index = units.integer(words[self._headings.index("GPU")]) if len(words) > name_index else None
        if index is None:
            return False
        headings = self._headings[name_index + 1 :]
        cells = words[self._headings.index("GPU") + 1 :]
        if _NO_PROCESS in line.text.lower() or (cells and all(units.placeholder(cell) for cell in cells)):
            self._card_block(index).entries.append(Entry(("process_info",), _NO_PROCESS, self._group, line.where))
            return True
        for start in range(max(name_index + 1, len(words) - 2 * len(headings)), len(words)):
            cells = _join_cells(words[start:]) if units.integer(words[start]) is not None else []
            if len(cells) == len(headings):
                name = " ".join(words[name_index:start])
                self._add_process(index, name, dict(zip(headings, cells, strict=True)), line)
                return True
        return False

    def _card_block(self, index: int) -> Block:
        """Return the block of the card with this index. Add the block if it is missing."""
        if index not in self._first_blocks_by_index:
            self._add_block(Block("gpu", index, f"GPU {index}"), index)
        return self._first_blocks_by_index[index]

    def _add_block(self, block: Block, index: int) -> None:
        self.blocks.append(block)
        self._first_blocks_by_index.setdefault(index, block)

    def _add_process(self, index: int, name: str, cells: Mapping[str, str], line: Line) -> None:
        self._group += 1
        block = self._card_block(index)
        # Processes may be missing, because the process table has no end mark.
        block.open_path = ("process_info",)
        block.entries.append(Entry(("process_info", "name"), name, self._group, line.where))
        for heading, text in cells.items():
            if heading in _PROCESS_PATHS_BY_HEADING:
                block.entries.append(Entry(_PROCESS_PATHS_BY_HEADING[heading], text, self._group, line.where))


def _join_cells(words: Sequence[str]) -> list[str]:
    """Join the words of a row into cells, such as `16.0 GB` or `NOT ACTIVE`."""
    cells: list[str] = []
    may_take_unit = False
    for word in words:
        if cells and cells[-1].startswith("[") and not cells[-1].endswith("]"):
            cells[-1] += f" {word}"
            may_take_unit = False
        elif cells and (cells[-1].endswith("/") or (cells[-1] == "NOT" and word == "ACTIVE")):
            cells[-1] += word if cells[-1].endswith("/") else f" {word}"
        elif may_take_unit and not _starts_cell(word):
            cells[-1] += f" {word}"
            may_take_unit = False
        else:
            cells.append(word)
            may_take_unit = _starts_cell(word)
    return cells


def _starts_cell(word: str) -> bool:
    return word[0].isdigit() or word[0] in "-[" or units.placeholder(word) is not None


def _cell_entries(heading: str, text: str, where: str) -> Iterator[Entry]:
    if heading in ("VRAM_USAGE", "GTT_USAGE"):
        pool = heading.partition("_")[0].lower()
        used, slash, total_text = text.partition("/")
        total, _, unit = total_text.strip().partition(" ")
        if slash and units.placeholder(text) is None:
            yield Entry((f"{pool}_used",), f"{used} {unit}".strip(), 0, where)
            yield Entry((f"{pool}_total",), f"{total} {unit}".strip(), 0, where)
        else:
            yield Entry((f"{pool}_used",), text, 0, where)
    elif heading in _KEYS_BY_HEADING and heading != "GPU":
        yield Entry((_KEYS_BY_HEADING[heading],), text, 0, where)


_NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,3})?"
_COLUMNS: Mapping[str, Column] = {
    "bdf": column(patterns.BUS, identity("bus_id")),
    # For a chip without a name, the tool prints the chip's number.
    "gpu-name": column(rf"(?:0x[0-9A-Fa-f]{{1,8}}(?!\S)|{patterns.NAME})", identity("model")),
    "mem-uti": column(patterns.PERCENT, metric("memory_activity_ratio")),
    "temp": column(patterns.CELSIUS, metric("temperature_celsius", "core")),
    "uec": column(patterns.COUNT, metric("ecc_uncorrected_total", "all")),
    # Power and limit: `611/750 W`, `N/A/0 W` (no limit) or, since 7.14, `121 W`.
    "power-usage": column(
        rf"(?:({_NUMBER}|N/A)(?:/({_NUMBER}|N/A))? ?W|N/A)",
        metric("power_watts", unit="W"),
        metric("power_cap_watts", unit="W", if_zero=Absent.NOT_SUPPORTED),
    ),
    "gpu": column(patterns.ID, identity("index")),
    "hip-id": IGNORED,
    "oam-id": column(patterns.COUNT, fact("oam_id")),
    "partition-mode": column(
        r"(?:N/A|([A-Z0-9]{1,8})/([A-Z0-9]{1,8}))", fact("compute_partition"), fact("memory_partition")
    ),
    "gfx-uti": column(patterns.PERCENT, metric("utilization_ratio")),
    # The percent sign of wide values, such as `100.0 %`, is cut off.
    "fan": column(rf"({_NUMBER}(?: ?%)?|N/A)", metric("fan_ratio", unit="%")),
    "mem-usage": column(patterns.BYTES_PAIR, metric("memory_used_bytes"), metric("memory_total_bytes")),
}
_BANNER = re.compile(r"\|[ \t]{1,4}AMD-SMI[ \t]")
_OVERVIEW = CardTableShape(
    columns=_COLUMNS,
    required_headings=frozenset({"bdf", "gpu-name", "mem-uti"}),
    banner=_BANNER,
    versions=(
        ("tool_version", re.compile(r"AMD-SMI[ \t]{1,30}([A-Za-z]{0,20}[0-9]\S{0,60})(?=\s)")),
        ("rocm_version", re.compile(r"ROCm [Vv]ersion:[ \t]{1,30}([0-9]\S{0,60})(?=\s)")),
        # A driver version of eight characters may be cut off.
        ("driver", re.compile(r"amdgpu [Vv]ersion:[ \t]{1,30}(?!\S{8}\s)([0-9]\S{0,60})(?<!\.\.\.)(?=\s)")),
    ),
    separator="|",
)
_PROCESS_HEADING = re.compile(r"[ \t|]{0,8}GPU[ \t]{1,20}PID[ \t]{1,20}Process Name[ \t]{1,40}(\S[^|]{0,100})")
_OVERVIEW_NO_PROCESSES = "no running processes"


def is_overview_heading(line: Line) -> bool:
    """Return whether a line is the first of the overview's two heading lines."""
    return line.ended and line.text.strip("| \t").startswith("BDF ") and "GPU-Name" in line.text


def read_overview(lines: Sequence[Line], draft: Draft) -> None:
    """Add the cards of the overview and their processes to the draft."""
    process_lines = read_cards(lines, _OVERVIEW, draft)
    if process_lines:
        _read_processes(process_lines, draft)
    elif not draft.is_cut:
        draft.add_problem(lines[-1].where, "the process table is missing")


def _read_processes(lines: Sequence[Line], draft: Draft) -> None:
    """Add the processes, and each card's process count if the table is complete."""
    headings = ((index + 1, match) for index, line in enumerate(lines) if (match := _PROCESS_HEADING.match(line.text)))
    start, heading = next(headings, (len(lines), None))
    names = heading[1].replace("CU %", "CU%").split() if heading else []
    end = next((index for index in reversed(range(start, len(lines))) if _is_last_rule(lines[index])), len(lines))
    is_closed = end < len(lines)
    absence = None if is_closed else Absent.NOT_REPORTED
    counts: Counter[int] = Counter()
    for line_index, line in enumerate(lines[start:], start):
        process = _parse_process(line, names, draft)
        if process is not None:
            draft.processes.append(process)
            counts[process.device] += 1
        elif line.text.strip() and not is_rule(line.text) and _OVERVIEW_NO_PROCESSES not in line.text.lower():
            draft.add_problem(line.where, not_understood(line.text))
            absence = absence or (Absent.NOT_UNDERSTOOD if line_index < end else None)
    if not is_closed:
        draft.add_problem(lines[-1].where, CUT_PROCESSES)
    for position in draft.positions().values():
        draft.set_value(position, metric("processes"), absence or float(counts[position]))


def _is_last_rule(line: Line) -> bool:
    """Return whether a line is a rule with corners, which ends the table."""
    text = line.text.strip()
    return line.ended and is_rule(text) and text.startswith("+") and text.endswith("+")


def _parse_process(line: Line, headings: Sequence[str], draft: Draft) -> Process | None:
    """Parse a row such as `0  213952  my app  7.9 MB  19.6 GB  20.1 GB  N/A`. Return None for other lines."""
    text = line.text.strip("| \t")
    # Rows of cards have bars between their cells.
    words = text.split(maxsplit=_MAX_WORDS) if line.ended and "|" not in text else []
    index, pid = (units.integer(word) for word in words[:2]) if len(words) > 2 else (None, None)
    position = None if index is None else draft.positions().get(index)
    rows = ((name_end, _join_cells(words[name_end:])) for name_end in range(3, len(words)))
    name_end, cells = next(((name_end, cells) for name_end, cells in rows if len(cells) == len(headings)), (0, []))
    if position is None or pid is None or not cells:
        return None
    row = dict(zip(headings, cells, strict=True))
    used = units.quantity(row.get("VRAM_MEM", row.get("MEM_USAGE", "")), units.BYTES, "B")
    return Process(
        position, pid, printed_text(" ".join(words[2:name_end])) or "", None if isinstance(used, Absent) else used
    )
