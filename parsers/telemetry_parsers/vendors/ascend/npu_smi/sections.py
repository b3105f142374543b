"""The owners of the lines in a `key : value` answer: each paragraph begins or ends with the name of its chip or part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from telemetry_parsers import units
from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.model import Absent, Problem
from telemetry_parsers.text.answers import CUT_LINE, not_understood, without_key
from telemetry_parsers.text.lines import Line, quote
from telemetry_parsers.vendors.ascend.npu_smi import keys
from telemetry_parsers.vendors.ascend.npu_smi.keys import split_key
from telemetry_parsers.vendors.ascend.npu_smi.readings import Entry, is_measured

_PROCESS = ("process id:", "process name:", "process memory(mb):")
_CRIES = ("warning", "[warning", "error:", "[error", "failed to ")
_NO_PROCESS = "no process in device"
_NO_NAME = "get pid name failed"  # the process follows, with a blank name


@dataclass(frozen=True, slots=True)
class Owner:
    """A line with the number of a chip, or the name of another part of the card."""

    line: Line
    chip: int | None = None
    is_part: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A process as `-t proc-mem` prints it."""

    pid: int
    name: str
    memory_bytes: float | None
    line: Line


@dataclass(frozen=True, slots=True)
class _Named:
    """A key with its value."""

    key: str
    entry: Entry

    @property
    def line(self) -> Line:
        """Return the line of the key."""
        return self.entry.line


@dataclass(frozen=True, slots=True)
class _Idle:
    """The message that there are no processes."""

    line: Line


@dataclass(frozen=True, slots=True)
class _Failure:
    """The message that a chip did not answer."""

    line: Line


_Item = Owner | Row | _Named | _Idle | _Failure


@dataclass(slots=True)
class Section:
    """The values of one chip or part, or of an unnamed part; `twice` is the line of a repeated key."""

    owner: Owner | None = None
    entries: dict[str, Entry] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    says_idle: bool = False
    twice: Line | None = None
    has_failed: bool = False

    def take(self, item: _Item) -> None:
        """Read one line."""
        if isinstance(item, Owner):
            self.owner = item
        elif isinstance(item, Row):
            self.rows.append(item)
        elif isinstance(item, _Idle):
            self.says_idle = True
        elif isinstance(item, _Failure):
            self.has_failed = True
        elif item.key not in self.entries:
            self.entries[item.key] = item.entry
        elif is_measured(item.key):
            self.twice = self.twice or item.line
        else:
            before = self.entries[item.key]
            self.entries[item.key] = replace(before, text=f"{before.text} {item.entry.text}")

    @property
    def is_empty(self) -> bool:
        """Return whether there is at most a name, and no message that the chip did not answer."""
        return not (self.entries or self.rows or self.says_idle or self.has_failed)

    @property
    def has_content(self) -> bool:
        """Return whether there is more than facts."""
        return bool(self.rows or self.says_idle) or any(is_measured(key) for key in self.entries)

    @property
    def where(self) -> str:
        """Return the position of the first line."""
        lines = [*(entry.line for entry in self.entries.values()), *(row.line for row in self.rows)]
        lines += [self.owner.line] if self.owner else []
        return min(lines, key=lambda line: line.number).where if lines else "text"

    @property
    def last_key(self) -> str:
        """Return the key of the last line; empty if that line is the owner's or a process."""
        last = max(self.entries.items(), key=lambda item: item[1].line.number, default=None)
        after = [*(row.line.number for row in self.rows), self.owner.line.number if self.owner else 0]
        return last[0] if last is not None and last[1].line.number > max(after) else ""


@dataclass(slots=True)
class Card:
    """The content of an answer about one card: its number, the number of its chips, and the paragraphs."""

    number: int | None = None
    where: str = "text"
    is_named: bool = False
    chip_count: int | None = None
    paragraphs: list[list[_Item]] = field(default_factory=lambda: [[]])

    def goes_on(self) -> bool:
        """Return whether the value of the last line continues below it under a blank key."""
        last = next((paragraph[-1] for paragraph in reversed(self.paragraphs) if paragraph), None)
        return isinstance(last, _Named) and last.key == keys.LONG_KEY

    def sections(self, problems: list[Problem]) -> Iterator[Section]:
        """Yield the sections. A paragraph whose sections have no clear boundaries becomes a problem."""
        for paragraph in _with_gaps(self.paragraphs):
            yield from _sections(paragraph, problems)


def cards(lines: Sequence[Line], number: int | None, problems: list[Problem]) -> list[Card]:
    """Return the cards in these lines; `number` is the requested card, for answers that do not name it."""
    cards_so_far = [Card(number)]
    for line in lines:
        text = line.text.strip()
        if not text:
            cards_so_far[-1].paragraphs.append([])
        elif not line.ended:
            problems.append(Problem(line.where, CUT_LINE))
        elif is_process(line):
            _take_process(cards_so_far[-1], line, problems)
        elif text.lower().startswith(_NO_PROCESS):
            cards_so_far[-1].paragraphs[-1].append(_Idle(line))
        elif not text.lower().startswith(_NO_NAME):
            _take_line(cards_so_far, line, problems)
    return cards_so_far


def is_process(line: Line) -> bool:
    """Return whether this is a process as `-t proc-mem` prints it."""
    return line.ended and line.text.strip().lower().startswith(_PROCESS[0])


def _take_line(cards_so_far: list[Card], line: Line, problems: list[Problem]) -> None:
    name, colon, value = line.text.partition(":")
    key, unit = split_key(name)
    if not colon:
        problems.append(Problem(line.where, not_understood(line.text)))
    elif key.startswith(_CRIES):
        problems.append(Problem(line.where, quote(line.text)))
        cards_so_far[-1].paragraphs[-1].append(_Failure(line))
    elif key == keys.CARD_KEY:
        cards_so_far.append(Card(units.whole(value), line.where, is_named=True))
    elif key == keys.COUNT_KEY:
        _take_count(cards_so_far, line, value, problems)
    elif key:
        _take_value(cards_so_far[-1], key, Entry(value.strip(), unit, line))
    elif not cards_so_far[-1].goes_on():
        problems.append(Problem(line.where, without_key(line.text)))


def _take_value(card: Card, key: str, entry: Entry) -> None:
    """Store a key with its value, or the owner of the lines above or below. Totals are checked at the end."""
    if key == keys.CHIP_KEY:
        card.paragraphs[-1].append(Owner(entry.line, units.whole(entry.text)))
    elif key == keys.NAME_KEY and entry.text.lower() in keys.OTHER_PARTS:
        card.paragraphs[-1].append(Owner(entry.line, is_part=True))
    elif key not in keys.TOTALS:
        card.paragraphs[-1].append(_Named(key, entry))


def _take_count(cards_so_far: list[Card], line: Line, value: str, problems: list[Problem]) -> None:
    """Store the number of chips, which follows the card's number. A second one belongs to a card whose number is lost."""
    if cards_so_far[-1].chip_count is not None:
        cards_so_far.append(Card(where=line.where))
    cards_so_far[-1].chip_count = units.whole(value)
    if cards_so_far[-1].chip_count is None:
        problems.append(Problem(line.where, f"no number of chips: {quote(line.text)}"))


def _take_process(card: Card, line: Line, problems: list[Problem]) -> None:
    """Store a process such as `Process id:2077  Process name:python     Process memory(MB):55436`."""
    text = line.text.strip()
    lower = text.lower()
    starts = [lower.find(word) for word in _PROCESS]
    ends = [start + len(word) for start, word in zip(starts, _PROCESS, strict=True)]
    pid = units.whole(text[ends[0] : starts[1]])
    if pid is None or -1 in starts or starts != sorted(starts):
        problems.append(Problem(line.where, f"no process: {quote(text)}"))
        return
    memory = units.quantity(text[ends[2] :], units.BYTES, "MB")
    used = None if isinstance(memory, Absent) else memory
    card.paragraphs[-1].append(Row(pid, text[ends[1] : starts[2]].strip(), used, line))


def _with_gaps(paragraphs: Sequence[list[_Item]]) -> list[list[_Item]]:
    """Return the paragraphs; a single one if a copy added a blank line after each line."""
    filled = [paragraph for paragraph in paragraphs if paragraph]
    is_doubled = len(filled) > 2 and all(len(paragraph) == 1 for paragraph in filled)
    return [[item for paragraph in filled for item in paragraph]] if is_doubled else filled


def _sections(paragraph: Sequence[_Item], problems: list[Problem]) -> Iterator[Section]:
    """Yield the sections of a paragraph. If there are several owners, each either opens or closes its section."""
    items = _named_once(paragraph)
    owners = [at for at, item in enumerate(items) if isinstance(item, Owner)]
    above = bool(owners) and _has_content(items[: owners[0]])
    below = bool(owners) and _has_content(items[owners[-1] :])
    if (above and below) or (len(owners) > 1 and not above and not below and _has_content(items)):
        text = "values between the names of chips or parts are not read: they may be of either"
        problems.append(Problem(items[owners[0]].line.where, text))
        return
    closes = above or (not below and bool(owners) and owners[-1] == len(items) - 1)
    starts = [0, *(at + 1 for at in owners[:-1])] if closes else [0, *owners[1:]]
    for start, end in zip(starts, [*starts[1:], len(items)], strict=True):
        section = Section()
        for item in items[start:end]:
            section.take(item)
        yield section


def _named_once(paragraph: Sequence[_Item]) -> list[_Item]:
    """Return the paragraph with one owner for a part with a number and a name, as in its `-t board`."""
    items: list[_Item] = []
    for item in paragraph:
        if items and isinstance(item, Owner) and isinstance(items[-1], Owner) and item.is_part:
            items.pop()
        items.append(item)
    return items


def _has_content(items: Sequence[_Item]) -> bool:
    return any(isinstance(item, Row | _Idle) or (isinstance(item, _Named) and is_measured(item.key)) for item in items)
