"""The columns of device lists in tables and in `telemetry top`: headings, cells, sort keys and widths."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Generic, TypeVar

from telemetry_exporters import human
from telemetry_exporters.judgement.overview import Row, as_number, reading_value, shares_host_memory
from telemetry_exporters.judgement.verdict import Finding, Severity
from telemetry_exporters.terminal.style import ABSENT, Style
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.model import Absent, MergedDevice, Value
from telemetry_parsers.past import kept_value
from telemetry_parsers.readings import Readings

_T = TypeVar("_T")
GAP = "  "
# A column of this priority or a higher number is left out if no visible row has a value.
OPTIONAL = 11
# Names and states are cut to the second width before other columns are dropped, and to the first when no other column is left.
_SHORTEST_NAME, _WHOLE_NAME = 8, 24
# A number, or the words and numbers of a text, so that 2 comes before 10.
Rank = float | tuple[str | int, ...]

SEVERITY_STYLES = {
    Severity.GOOD: Style.GOOD,
    Severity.QUIET: Style.DIM,
    Severity.WARNING: Style.WARNING,
    Severity.BAD: Style.BAD,
}
_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class Cell:
    """The text of one row in one column."""

    text: str
    style: Style = Style.PLAIN


@dataclass(frozen=True, slots=True)
class Column(Generic[_T]):
    """A column of rows."""

    heading: str
    cell: Callable[[_T], Cell]
    rank: Callable[[_T], Rank | None]  # the sort key, None for a row without a value
    priority: int  # columns with the lowest number stay longest
    least: int = 0  # the width to which a text may be cut; 0: never
    whole: int = 0  # the width to which a name is cut before other columns are dropped
    usual: int = 0  # keeps the width steady while numbers change
    slot: str = ""  # of columns with the same slot, the best that fits is shown
    is_text: bool = False
    is_kept: bool = False  # whether history has the values
    most: int = 0  # the greatest width of a drawing
    draw: Callable[[_T, int], Cell] | None = None


def text_cell(text: str | None) -> Cell:
    """Return the text, or the mark of its absence."""
    return Cell(text) if text else Cell(ABSENT, Style.DIM)


def _value_cell(value: Value | None, words: Callable[[float], str]) -> Cell:
    """Return the number in words, or the mark of its absence."""
    number = as_number(value)
    return text_cell(None if number is None else words(number))


def text_rank(text: str | None) -> Rank | None:
    """Return the sort key of a text, in which 2 comes before 10."""
    if not text:
        return None
    return tuple(int(part) if index % 2 else part.lower() for index, part in enumerate(_DIGITS.split(text)))


def text_column(
    heading: str, read: Callable[[_T], str | None], priority: int, least: int, slot: str = "", *, is_kept: bool = False
) -> Column[_T]:
    """Return a column of texts, which may be cut to `least` characters."""
    return Column(
        heading,
        lambda row: text_cell(read(row)),
        lambda row: text_rank(read(row)),
        priority,
        least=least,
        slot=slot,
        is_text=True,
        is_kept=is_kept,
    )


def number_column(
    heading: str,
    read: Callable[[_T], Value | None],
    words: Callable[[float], str],
    priority: int,
    usual: int,
    *,
    slot: str = "",
    is_kept: bool = False,
) -> Column[_T]:
    """Return a column of numbers, formatted by `words`."""
    return Column(
        heading,
        lambda row: _value_cell(read(row), words),
        lambda row: as_number(read(row)),
        priority,
        usual=usual,
        slot=slot,
        is_kept=is_kept,
    )


def name_column(
    heading: str, read: Callable[[_T], str | None], priority: int, slot: str = "", *, is_kept: bool = False
) -> Column[_T]:
    """Return a column of names, which are cut last."""
    column = text_column(heading, read, priority, _SHORTEST_NAME, slot, is_kept=is_kept)
    return replace(column, whole=_WHOLE_NAME)


def condition_column(read: Callable[[_T], Finding], priority: int) -> Column[_T]:
    """Return a column of conditions in the colours of their severity; they are cut last."""
    return Column(
        "STATE",
        lambda row: Cell(read(row).word, SEVERITY_STYLES[read(row).severity]),
        lambda row: text_rank(read(row).word),
        priority,
        least=_SHORTEST_NAME,
        whole=_WHOLE_NAME,
        is_text=True,
    )


def _power_cell(row: Row) -> Cell:
    cap = as_number(row.power_cap)
    if cap is None:
        return _value_cell(row.power, human.watts)
    power = _value_cell(row.power, human.watts).text.removesuffix(" W")
    return Cell(f"{power} / {human.watts(cap)}")


def _memory_cell(row: Row) -> Cell:
    used, total = as_number(row.memory_used), as_number(row.memory_total)
    if total is None:
        return _shared_cell(row) or _value_cell(row.memory_used, human.byte_size)
    if used is None:
        return Cell(f"{ABSENT} / {human.byte_size(total)}")
    return Cell(human.byte_pair(used, total))


def _memory_share_cell(row: Row) -> Cell:
    used, total = as_number(row.memory_used), as_number(row.memory_total)
    return (
        Cell(human.percent(used / total))
        if used is not None and total
        else _shared_cell(row) or _value_cell(row.memory_used, human.byte_size)
    )


def _shared_cell(row: Row) -> Cell | None:
    """Return the cell of a device that uses the host's memory, or None for a device with memory of its own."""
    if as_number(row.memory_used) is not None or not shares_host_memory(row.device):
        return None
    taken = as_number(reading_value(row.device, "memory_processes_bytes"))
    return Cell(human.SHARED if taken is None else f"{human.byte_size(taken)} shared")


def _fan_cell(row: Row) -> Cell:
    ratio = reading_value(row.device, "fan_ratio")
    if as_number(ratio) is not None:
        return _value_cell(ratio, human.percent)
    return _value_cell(reading_value(row.device, "fan_rpm"), lambda rpm: f"{human.digits(rpm)} rpm")


def throttled_by(device: MergedDevice) -> tuple[str, ...] | None:
    """Return the active reasons of throttling, or None if no source reports any."""
    shown = Readings.of(device.readings)
    reported = [
        (label, value)
        for (metric, label), value in zip(shown.shape.keys, shown.values, strict=True)
        if metric == "throttled"
    ]
    numbers = [(label, value) for label, value in reported if not isinstance(value, Absent)]
    return tuple(label for label, value in numbers if value == 1.0) if numbers else None


def _throttled_text(row: Row) -> str | None:
    reasons = throttled_by(row.device)
    if reasons is None:
        return None
    return ", ".join(reason.replace("_", " ") or "yes" for reason in reasons) or "no"


def _clock(row: Row) -> Value | None:
    return kept_value(row.device, "clock_hertz")


def _memory_activity(row: Row) -> Value | None:
    return reading_value(row.device, "memory_activity_ratio")


def _processes(row: Row) -> Value | None:
    reported = reading_value(row.device, "processes")
    return float(len(row.device.processes)) if as_number(reported) is None and row.device.processes else reported


def _owner_text(row: Row) -> str | None:
    if not row.device.allocations:
        return None
    return human.owners_summary(row.device.allocations)


VENDOR: Column[Row] = name_column("VENDOR", lambda row: row.device.vendor, 23, is_kept=True)
# In the order on the screen. The highest priority number is dropped first, names and states never.
DEVICE_COLUMNS: tuple[Column[Row], ...] = (
    VENDOR,
    name_column("DEV", lambda row: row.device.device, 1, "device", is_kept=True),
    name_column("DEVICE", lambda row: row.device.device, 7, "device", is_kept=True),
    text_column("MODEL", lambda row: row.model, 10, 14, is_kept=True),
    number_column("TEMP", lambda row: row.temperature, human.celsius, 2, 6, is_kept=True),
    number_column("POWER", lambda row: row.power, human.watts, 5, 5, slot="power", is_kept=True),
    Column("POWER / CAP", _power_cell, lambda row: as_number(row.power), 6, usual=11, slot="power", is_kept=True),
    Column("MEM", _memory_share_cell, lambda row: as_number(row.memory_used), 4, usual=5, slot="memory", is_kept=True),
    Column("MEMORY", _memory_cell, lambda row: as_number(row.memory_used), 8, usual=14, slot="memory", is_kept=True),
    number_column("UTIL", lambda row: row.utilization, human.percent, 3, 5, is_kept=True),
    condition_column(lambda row: row.condition, 0),
    text_column("OWNER", _owner_text, 11, 14, is_kept=True),
    text_column("THROTTLED", _throttled_text, 18, 9, is_kept=True),
    number_column("CLOCK", _clock, human.hertz, 17, 8, is_kept=True),
    number_column("MEM ACT", _memory_activity, human.percent, 21, 5, is_kept=True),
    Column("FAN", _fan_cell, lambda row: as_number(reading_value(row.device, "fan_ratio")), 20, usual=5),
    number_column("PROCS", _processes, human.digits, 22, 3),
    text_column("BUS ID", lambda row: row.device.bus_id, 25, 12, is_kept=True),
    text_column("DRIVER", lambda row: row.device.driver, 24, 12),
)


def of_vendors(columns: Sequence[Column[_T]], vendors: Collection[str]) -> tuple[Column[_T], ...]:
    """Return the columns for devices of these vendors. With several, the vendor is always shown, because labels repeat."""
    if len(vendors) < 2:
        return tuple(columns)
    return tuple(replace(column, priority=-1) if column.heading == VENDOR.heading else column for column in columns)


def fitted(
    columns: Sequence[Column[_T]], width_of: Callable[[int], int], limit: int, gap: int = len(GAP)
) -> dict[int, int]:
    """Return the positions and widths of the columns that fit. `width_of` returns the width that a column would take, 0 to leave it out."""
    kept: dict[int, int] = {}
    wanted: dict[int, int] = {}
    for index in sorted(range(len(columns)), key=lambda index: columns[index].priority):
        column = columns[index]
        if column.priority >= OPTIONAL:  # no text is cut for an optional column
            _grow_texts(columns, wanted, kept, limit - gap * (len(kept) - 1))
        others = {
            other: width for other, width in kept.items() if not column.slot or columns[other].slot != column.slot
        }
        room = limit - sum(others.values()) - gap * len(others)
        if room < (0 if column.whole else column.least or max(column.usual, len(column.heading))):
            continue
        wanted[index] = width_of(index)
        width = _narrowest(column, wanted[index], room)
        if column.whole and not kept:  # every terminal shows the first name
            width = min(width, max(room, 1))
        if 0 < width <= room:
            kept = {**others, index: width}
    limit -= gap * (len(kept) - 1)
    _grow_texts(columns, wanted, kept, limit)
    _widen_graphics(columns, wanted, kept, limit)
    return dict(sorted(kept.items()))


def _narrowest(column: Column[_T], wanted: int, room: int) -> int:
    """Return the width that the column needs; a name is whole while there is room."""
    least = min(wanted, column.least or wanted)
    return max(least, min(wanted, column.whole, room))


def _grow_texts(columns: Sequence[Column[_T]], wanted: Mapping[int, int], kept: dict[int, int], limit: int) -> None:
    """Distribute the remaining width to cut texts, in order of priority."""
    for index in sorted(
        (index for index in kept if not columns[index].most), key=lambda index: columns[index].priority
    ):
        kept[index] += max(0, min(limit - sum(kept.values()), wanted[index] - kept[index]))


def _widen_graphics(columns: Sequence[Column[_T]], wanted: Mapping[int, int], kept: dict[int, int], limit: int) -> None:
    """Distribute the remaining width to drawings, in equal parts."""
    drawn = [index for index in kept if columns[index].most]
    while growing := [index for index in drawn if kept[index] < wanted[index]][: max(0, limit - sum(kept.values()))]:
        for index in growing:
            kept[index] += 1
