"""Splits `key : value` output into sections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from telemetry_parsers import units
from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.model import Absent, Problem
from telemetry_parsers.text.answers import CUT_LINE, not_understood, value_without_key
from telemetry_parsers.text.lines import Line, quote
from telemetry_parsers.vendors.ascend.npu_smi import keys
from telemetry_parsers.vendors.ascend.npu_smi.keys import split_key
from telemetry_parsers.vendors.ascend.npu_smi.readings import Entry, is_measured

_PROCESS_KEYS = ("process id:", "process name:", "process memory(mb):")
_ERROR_WORDS = ("warning", "[warning", "error:", "[error", "failed to ")
_NO_PROCESS = "no process in device"
_NAME_FAILED = "get pid name failed"  # printed above a process with a blank name


@dataclass(frozen=True, slots=True)
class PartLine:
    """A line that names a chip or another part of the card."""

    line: Line
    chip: int | None = None
    is_other_part: bool = False


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """A process line of `-t proc-mem`."""

    pid: int
    name: str
    memory_bytes: float | None
    line: Line


@dataclass(frozen=True, slots=True)
class _KeyValue:
    key: str
    entry: Entry

    @property
    def line(self) -> Line:
        return self.entry.line


@dataclass(frozen=True, slots=True)
class _NoProcesses:
    """The message that there are no processes."""

    line: Line


@dataclass(frozen=True, slots=True)
class _ChipFailure:
    """The message that a chip did not answer."""

    line: Line


_LineContent = PartLine | ProcessRow | _KeyValue | _NoProcesses | _ChipFailure


@dataclass(slots=True)
class Section:
    """The values in one section of a card, with or without a name."""

    part: PartLine | None = None
    entries: dict[str, Entry] = field(default_factory=dict)
    rows: list[ProcessRow] = field(default_factory=list)
    is_idle: bool = False
    repeated_line: Line | None = None
    has_failed: bool = False

    def add(self, item: _LineContent) -> None:
        """Add the content of a line."""
        if isinstance(item, PartLine):
            self.part = item
        elif isinstance(item, ProcessRow):
            self.rows.append(item)
        elif isinstance(item, _NoProcesses):
            self.is_idle = True
        elif isinstance(item, _ChipFailure):
            self.has_failed = True
        elif item.key not in self.entries:
            self.entries[item.key] = item.entry
        elif is_measured(item.key):
            self.repeated_line = self.repeated_line or item.line
        else:
            entry = self.entries[item.key]
            self.entries[item.key] = replace(entry, text=f"{entry.text} {item.entry.text}")

    @property
    def is_empty(self) -> bool:
        """Return whether the section has neither values nor messages."""
        return not (self.entries or self.rows or self.is_idle or self.has_failed)

    @property
    def has_content(self) -> bool:
        """Return whether the section has measured values, processes or a message about them."""
        return bool(self.rows or self.is_idle) or any(is_measured(key) for key in self.entries)

    @property
    def where(self) -> str:
        """Return where the section begins, such as `line 3`."""
        lines = [*(entry.line for entry in self.entries.values()), *(row.line for row in self.rows)]
        lines += [self.part.line] if self.part else []
        return min(lines, key=lambda line: line.number).where if lines else "text"

    @property
    def last_key(self) -> str:
        """Return the key in the section's last line, or an empty string if the line has no key."""
        last_entry = max(self.entries.items(), key=lambda item: item[1].line.number, default=None)
        other_lines = [*(row.line.number for row in self.rows), self.part.line.number if self.part else 0]
        return last_entry[0] if last_entry is not None and last_entry[1].line.number > max(other_lines) else ""


@dataclass(slots=True)
class Card:
    """The lines about one card in an answer, split into paragraphs at blank lines."""

    number: int | None = None
    where: str = "text"
    is_named: bool = False
    chip_count: int | None = None
    paragraphs: list[list[_LineContent]] = field(default_factory=lambda: [[]])

    def is_continued(self) -> bool:
        """Return whether a line with a blank key continues the last value."""
        last_item = next((paragraph[-1] for paragraph in reversed(self.paragraphs) if paragraph), None)
        return isinstance(last_item, _KeyValue) and last_item.key == keys.MULTILINE_KEY

    def sections(self, problems: list[Problem]) -> Iterator[Section]:
        """Yield the sections, and report ambiguous paragraphs."""
        for paragraph in _join_if_doubled(self.paragraphs):
            yield from _split_sections(paragraph, problems)


def cards_in(lines: Sequence[Line], requested_card: int | None, problems: list[Problem]) -> list[Card]:
    """Return the cards in these lines. Lines above the first NPU ID belong to `requested_card`."""
    cards = [Card(requested_card)]
    for line in lines:
        text = line.text.strip()
        if not text:
            cards[-1].paragraphs.append([])
        elif not line.ended:
            problems.append(Problem(line.where, CUT_LINE))
        elif is_process_line(line):
            _store_process(cards[-1], line, problems)
        elif text.lower().startswith(_NO_PROCESS):
            cards[-1].paragraphs[-1].append(_NoProcesses(line))
        elif not text.lower().startswith(_NAME_FAILED):
            _read_line(cards, line, problems)
    return cards


def is_process_line(line: Line) -> bool:
    """Return whether a line is a process of `-t proc-mem`."""
    return line.ended and line.text.strip().lower().startswith(_PROCESS_KEYS[0])


def _read_line(cards: list[Card], line: Line, problems: list[Problem]) -> None:
    name, colon, value = line.text.partition(":")
    key, unit = split_key(name)
    if not colon:
        problems.append(Problem(line.where, not_understood(line.text)))
    elif key.startswith(_ERROR_WORDS):
        problems.append(Problem(line.where, quote(line.text)))
        cards[-1].paragraphs[-1].append(_ChipFailure(line))
    elif key == keys.CARD_KEY:
        cards.append(Card(units.integer(value), line.where, is_named=True))
    elif key == keys.COUNT_KEY:
        _store_chip_count(cards, line, value, problems)
    elif key:
        _store_value(cards[-1], key, Entry(value.strip(), unit, line))
    elif not cards[-1].is_continued():
        problems.append(Problem(line.where, value_without_key(line.text)))


def _store_value(card: Card, key: str, entry: Entry) -> None:
    if key == keys.CHIP_KEY:
        card.paragraphs[-1].append(PartLine(entry.line, units.integer(entry.text)))
    elif key == keys.NAME_KEY and entry.text.lower() in keys.OTHER_PARTS:
        card.paragraphs[-1].append(PartLine(entry.line, is_other_part=True))
    elif key not in keys.TOTAL_KEYS:
        card.paragraphs[-1].append(_KeyValue(key, entry))


def _store_chip_count(cards: list[Card], line: Line, value: str, problems: list[Problem]) -> None:
    if cards[-1].chip_count is not None:
        cards.append(Card(where=line.where))
    cards[-1].chip_count = units.integer(value)
    if cards[-1].chip_count is None:
        problems.append(Problem(line.where, f"the number of chips is invalid: {quote(line.text)}"))


def _store_process(card: Card, line: Line, problems: list[Problem]) -> None:
    """Parse and store a line such as `Process id:2077  Process name:python     Process memory(MB):55436`."""
    text = line.text.strip()
    lower_text = text.lower()
    starts = [lower_text.find(word) for word in _PROCESS_KEYS]
    ends = [start + len(word) for start, word in zip(starts, _PROCESS_KEYS, strict=True)]
    pid = units.integer(text[ends[0] : starts[1]])
    if pid is None or -1 in starts or starts != sorted(starts):
        problems.append(Problem(line.where, f"the process is invalid: {quote(text)}"))
        return
    memory = units.quantity(text[ends[2] :], units.BYTES, "MB")
    used = None if isinstance(memory, Absent) else memory
    card.paragraphs[-1].append(ProcessRow(pid, text[ends[1] : starts[2]].strip(), used, line))


def _join_if_doubled(paragraphs: Sequence[list[_LineContent]]) -> list[list[_LineContent]]:
    """Return the paragraphs that are not empty. If line breaks are doubled, join all lines into one paragraph."""
    filled_paragraphs = [paragraph for paragraph in paragraphs if paragraph]
    is_doubled = len(filled_paragraphs) > 2 and all(len(paragraph) == 1 for paragraph in filled_paragraphs)
    return [[item for paragraph in filled_paragraphs for item in paragraph]] if is_doubled else filled_paragraphs


def _split_sections(paragraph: Sequence[_LineContent], problems: list[Problem]) -> Iterator[Section]:
    """Yield the sections of a paragraph. Report a paragraph whose values may belong to either of two names."""
    items = _omit_numbers_before_names(paragraph)
    name_indices = [index for index, item in enumerate(items) if isinstance(item, PartLine)]
    has_above = bool(name_indices) and _has_content(items[: name_indices[0]])
    has_below = bool(name_indices) and _has_content(items[name_indices[-1] :])
    if (has_above and has_below) or (len(name_indices) > 1 and not has_above and not has_below and _has_content(items)):
        text = "values between two names of chips or parts are not read, because they may belong to either"
        problems.append(Problem(items[name_indices[0]].line.where, text))
        return
    are_names_last = has_above or (not has_below and bool(name_indices) and name_indices[-1] == len(items) - 1)
    starts = [0, *(index + 1 for index in name_indices[:-1])] if are_names_last else [0, *name_indices[1:]]
    for start, end in zip(starts, [*starts[1:], len(items)], strict=True):
        section = Section()
        for item in items[start:end]:
            section.add(item)
        yield section


def _omit_numbers_before_names(paragraph: Sequence[_LineContent]) -> list[_LineContent]:
    """Omit the number of a part if the next line is the part's name, as in `-t board`."""
    items: list[_LineContent] = []
    for item in paragraph:
        if items and isinstance(item, PartLine) and isinstance(items[-1], PartLine) and item.is_other_part:
            items.pop()
        items.append(item)
    return items


def _has_content(items: Sequence[_LineContent]) -> bool:
    return any(
        isinstance(item, ProcessRow | _NoProcesses) or (isinstance(item, _KeyValue) and is_measured(item.key))
        for item in items
    )
