"""amd-smi's overview, which it prints without a sub-command: two rows for each card in a box, and a box of processes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from telemetry_parsers import units
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.text.complaints import not_understood
from telemetry_parsers.text.lines import Line, quote
from telemetry_parsers.vendors.amd.amd_smi.blocks import Block, Entry, Path
from telemetry_parsers.vendors.amd.amd_smi.keys import PROCESS_KEYS
from telemetry_parsers.vendors.amd.amd_smi.saved.tables import cells_of

_NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,3})?"
_PERCENT = rf"{_NUMBER} ?%|N/A"
_COUNT = r"[0-9]{1,12}|N/A"
_WORD = r"\S{1,40}"


@dataclass(frozen=True, slots=True)
class _Column:
    """What the cells below a heading look like, and where their parts go; the parts stand with a slash between them."""

    cell: str
    paths: tuple[Path, ...] = ()


# The keys are those of the overview as JSON.
_COLUMNS: Mapping[str, _Column] = MappingProxyType(
    {
        "BDF": _Column(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]|N/A", (("bdf",),)),
        "GPU-Name": _Column(r"\S{1,40}(?: \S{1,40}){0,9}", (("market_name",),)),
        "Mem-Uti": _Column(_PERCENT, (("mem_util",),)),
        "Temp": _Column(rf"-?{_NUMBER} ?\S{{1,4}}|N/A", (("temp",),)),
        "UEC": _Column(_COUNT, (("uncorr_ecc",),)),
        "Power-Usage": _Column(
            rf"(?:{_NUMBER}|N/A)(?:/(?:{_NUMBER}|N/A))? ?W|N/A", (("power_usage", "current_power"), ("power_usage", "power_limit"))
        ),
        "GPU": _Column(r"[0-9]{1,4}", (("gpu",),)),
        "HIP-ID": _Column(_COUNT, (("hip_id",),)),
        "OAM-ID": _Column(_COUNT, (("oam_id",),)),
        "Partition-Mode": _Column(
            r"[A-Z0-9]{1,8}/[A-Z0-9]{1,8}|N/A", (("partition", "accelerator_partition"), ("partition", "memory_partition"))
        ),
        "GFX-Uti": _Column(_PERCENT, (("gfx_util",),)),
        # `100.0 %` and `38.82 %` are too wide for it and lose the sign, never a digit: the tool rounds to two decimals.
        "Fan": _Column(rf"{_PERCENT}|{_NUMBER}", (("fan",),)),
        "Mem-Usage": _Column(rf"{_NUMBER}/{_NUMBER} ?[KMG]i?B|N/A", (("mem_usage", "used_vram"), ("mem_usage", "total_vram"))),
    }
)  # fmt: skip
_PART = re.compile(r"N/A|[^/]{1,20}")
_UNKNOWN = _Column(rf"{_NUMBER} ?(?:%|°C|W|[KMG]B)|{_WORD}")
_PROCESS_COLUMNS: Mapping[str, Path] = MappingProxyType(
    {**{name.upper(): path for name, path in PROCESS_KEYS.items()}, "PROCESS NAME": PROCESS_KEYS["name"]}
)
_PROCESS_HEADING = re.compile(r"GPU[ \t]{1,20}PID[ \t]{1,20}Process Name[ \t]{1,40}(\S.{0,100})")
_HEADERS = MappingProxyType(
    {"amd-smi": "tool_version", "rocm version": "rocm_version", "amdgpu version": "driver_version"}
)
_HEADER = re.compile(
    r"(AMD-SMI|amdgpu [Vv]ersion|ROCm [Vv]ersion):?[ \t]{1,30}([A-Za-z]{0,20}(?:[0-9]\S{0,60}|\.\.\.|(?=Linux)\S{1,60}))"
)
# A version of the driver with as many letters may be cut off.
_CUT_DRIVER = 8
# … and later versions say so.
_CUT_OFF = "..."
_RULE = re.compile(r"[-+=| ]{3,200}\Z")
_NONE = "no running processes"
_CUT = "the overview is cut off here; further cards may be missing"


@dataclass(frozen=True, slots=True)
class _Heading:
    """One of the two heading lines: the names of its cells in order, and what a row below it looks like."""

    names: tuple[str, ...]
    row: re.Pattern[str]


def is_box(lines: Sequence[Line]) -> bool:
    """Whether these lines hold the overview with its headings."""
    return any(_heading(_inside(line)) is not None for line in lines)


def read_box(lines: Sequence[Line], draft: Draft) -> list[Block]:
    """What the overview says of each card, and of the processes on it."""
    scan = _Scan(draft)
    for line in lines:
        scan.take(line)
    return scan.finish(lines[-1])


def _inside(line: Line) -> str:
    """The text between a line's borders, its two halves joined by blanks; empty for a line without borders."""
    text = line.text.strip()
    whole = line.ended and len(text) > 1 and text[0] == text[-1] == "|"
    return "  ".join(part.strip() for part in text[1:-1].split("|")).strip() if whole else ""


def _heading(text: str) -> _Heading | None:
    names = tuple(text.split())
    if not names or names[0] not in ("BDF", "GPU") or sum(name in _COLUMNS for name in names) < 3:
        return None
    cells = (f"({_COLUMNS.get(name, _UNKNOWN).cell})" for name in names)
    return _Heading(names, re.compile(r"\s{1,60}".join(cells) + r"\Z"))


class _Scan:
    """The state between two lines: the headings in force, the card whose second row is awaited, the open box."""

    def __init__(self, draft: Draft) -> None:
        self.blocks: list[Block] = []
        self._draft = draft
        self._headings: list[_Heading] = []
        self._processes: tuple[str, ...] = ()
        self._card: list[Entry] = []
        self._group = 0
        self._driver: str | None = None
        self._cards_end = self._processes_end = False

    def take(self, line: Line) -> None:
        text = _inside(line)
        heading = _heading(text)
        if heading is not None:
            self._head(heading, line)
        elif title := _PROCESS_HEADING.match(text):
            self._processes = tuple(title[1].replace("CU %", "CU%").split())
        elif _RULE.match(line.text.strip()):
            self._rule(line)
        elif text and not self._headings:
            self._header(text)
        elif line.text.strip() and not (text == "Processes:" or (text and self._row(line, text))):
            self._draft.complain(line.where, not_understood(line.text.strip()))

    def finish(self, last: Line) -> list[Block]:
        """The cards, with the driver that is named for all, and whether their processes were counted."""
        self._end_of_card(last)
        if not self._cards_end:
            self._draft.is_cut = True
            self._draft.complain(last.where, f"{_CUT}: {quote(last.text)}")
        elif not self._processes_end:
            self._draft.complain(last.where, "the box of processes is missing or cut off")
        for block in self.blocks:
            block.open_at = None if self._processes_end or not self._processes else ("process_info",)
            if self._processes_end and not any(entry.path[0] == "process_info" for entry in block.entries):
                block.entries.append(Entry(("process_info",), "[]", 0, block.where))
            if self._driver is not None:
                block.entries.append(Entry(("driver", "version"), self._driver, 0, block.where))
        return self.blocks

    def _head(self, heading: _Heading, line: Line) -> None:
        """Takes in a heading line; the first one of a second overview puts that in place of the one before."""
        if heading.names[0] == "BDF" and self._headings:
            self._draft.complain(line.where, "several overviews in one text; the last one is read")
            self.blocks.clear()
            self._headings, self._card, self._processes = [], [], ()
            self._cards_end = self._processes_end = False
        self._headings.append(heading)

    def _rule(self, line: Line) -> None:
        """A rule ends a card; one between corners ends the box."""
        if line.text.strip().startswith("+") and line.text.strip().endswith("+"):
            self._processes_end = bool(self._processes)
            self._cards_end = self._cards_end or bool(self.blocks or self._card)
        if "=" not in line.text:
            self._end_of_card(line)

    def _header(self, text: str) -> None:
        for name, value in _HEADER.findall(text):
            if value.endswith(_CUT_OFF):
                continue
            fact = _HEADERS[name.lower()]
            if fact != "driver_version":
                self._draft.facts[fact] = value
            elif len(value) != _CUT_DRIVER:
                self._driver = value

    def _row(self, line: Line, text: str) -> bool:
        if self._processes:
            return self._process(line, text)
        for heading in self._headings:
            match = heading.row.match(text)
            if match is not None:
                self._take_cells(heading, match.groups(), line)
                return True
        return False

    def _take_cells(self, heading: _Heading, cells: Sequence[str], line: Line) -> None:
        if heading.names[0] == "BDF":
            self._end_of_card(line)
        for name, text in zip(heading.names, cells, strict=True):
            if name in _COLUMNS:
                self._card += _entries(_COLUMNS[name], text, f"{line.where} {name}")
            else:
                self._draft.name_unknown(name)
        if heading.names[0] == "GPU":
            self._end_of_card(line)

    def _end_of_card(self, line: Line) -> None:
        """The rows that were read become a card, if one of them tells its number."""
        index = next((int(entry.text) for entry in self._card if entry.path == ("gpu",)), None)
        if self._card and index is None:
            self._draft.complain(line.where, "a card without its second row, which is not read")
        elif index is not None:
            entries = [entry for entry in self._card if entry.path != ("gpu",)]
            self.blocks.append(Block("gpu", index, f"GPU {index}", entries))
        self._card = []

    def _process(self, line: Line, text: str) -> bool:
        """A row such as `0  213952  my app  7.9 MB  19.6 GB  20.1 GB  N/A`; the name may hold blanks."""
        if text.lower().startswith(_NONE):
            return True
        words = text.split(maxsplit=120)
        index, pid = (units.whole(word) for word in words[:2]) if len(words) > 2 else (None, None)
        block = next((found for found in self.blocks if found.index == index), None)
        if index is None or pid is None or block is None:
            return False
        for start in range(3, len(words)):
            cells = cells_of(words[start:])
            if len(cells) == len(self._processes):
                row = dict(
                    zip(("PID", "NAME", *self._processes), (words[1], " ".join(words[2:start]), *cells), strict=True)
                )
                self._group += 1
                block.entries += [
                    Entry(_PROCESS_COLUMNS[name], cell, self._group, line.where)
                    for name, cell in row.items()
                    if name in _PROCESS_COLUMNS
                ]
                return True
        return False


def _entries(column: _Column, text: str, where: str) -> Iterator[Entry]:
    """The parts of a cell, each with the unit that stands behind the last: `125/750 W`, `N/A/750 W`, `49 W`."""
    if len(column.paths) == 1 or units.placeholder(text) is not None:
        yield from (Entry(path, text, 0, where) for path in column.paths)
        return
    numbers, _, unit = text.partition(" ")
    for path, part in zip(column.paths, _PART.findall(numbers), strict=False):
        yield Entry(path, f"{part} {unit}".strip() if units.placeholder(part) is None else part, 0, where)
