"""The columns of device lists in the terminal."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Generic, TypeVar

from telemetry_exporters import human
from telemetry_exporters.judgement.overview import DeviceRow, as_number, reading_value, shares_host_memory
from telemetry_exporters.judgement.verdict import Finding, Severity
from telemetry_exporters.terminal.style import ABSENT, Style
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.model import Absent, MergedDevice, Value
from telemetry_parsers.past import kept_value
from telemetry_parsers.readings import Readings

_T = TypeVar("_T")
_ReadText = Callable[[_T], str | None]
_Widths = dict[int, int]  # maps the position of a column to its width
GAP = "  "
# Columns whose priority number is at least FIRST_OPTIONAL are omitted if no visible row has a value.
FIRST_OPTIONAL = 11
# Names are cut to _NAME_WIDTH before any column is dropped. Afterwards, they may be cut to _MIN_NAME_WIDTH.
_MIN_NAME_WIDTH, _NAME_WIDTH = 8, 24
# A text is split into words and numbers, so that "2" comes before "10".
SortKey = float | tuple[str | int, ...]

SEVERITY_STYLES = {
    Severity.GOOD: Style.GOOD,
    Severity.QUIET: Style.DIM,
    Severity.WARNING: Style.WARNING,
    Severity.BAD: Style.BAD,
}
_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a list: a text and its style."""

    text: str
    style: Style = Style.PLAIN


@dataclass(frozen=True, slots=True)
class Column(Generic[_T]):
    """A column of a list whose rows have the type `_T`."""

    heading: str
    cell: Callable[[_T], Cell]
    sort_key: Callable[[_T], SortKey | None]  # returns None if the row has no value
    priority: int  # columns with the highest number are dropped first
    min_width: int = 0  # the smallest width to which texts may be cut, or 0 if texts must not be cut
    name_width: int = 0  # the width to which names are cut before other columns are dropped
    usual_width: int = 0  # the minimum width, which keeps the column steady while numbers change
    group: str = ""  # only the widest column of each group that fits is shown
    is_text: bool = False
    has_history: bool = False  # whether the history keeps the column's values
    max_width: int = 0  # the maximum width of a drawing, or 0 if the column is not a drawing
    draw: Callable[[_T, int], Cell] | None = None


def text_cell(text: str | None) -> Cell:
    """Return a cell with the text, or with a dash if it is empty."""
    return Cell(text) if text else Cell(ABSENT, Style.DIM)


def _value_cell(value: Value | None, format_value: Callable[[float], str]) -> Cell:
    number = as_number(value)
    return text_cell(None if number is None else format_value(number))


def text_sort_key(text: str | None) -> SortKey | None:
    """Return a sort key that puts `2` before `10`, or None for an empty text."""
    if not text:
        return None
    return tuple(int(part) if index % 2 else part.lower() for index, part in enumerate(_DIGITS.split(text)))


def text_column(
    heading: str, read: _ReadText[_T], priority: int, min_width: int, group: str = "", *, has_history: bool = False
) -> Column[_T]:
    """Return a column of strings, which can be cut to a width of `min_width`."""
    return Column(
        heading,
        lambda row: text_cell(read(row)),
        lambda row: text_sort_key(read(row)),
        priority,
        min_width=min_width,
        group=group,
        is_text=True,
        has_history=has_history,
    )


def number_column(
    heading: str,
    read: Callable[[_T], Value | None],
    format_value: Callable[[float], str],
    priority: int,
    usual_width: int,
    *,
    group: str = "",
    has_history: bool = False,
) -> Column[_T]:
    """Return a column of numbers, which are never cut."""
    return Column(
        heading,
        lambda row: _value_cell(read(row), format_value),
        lambda row: as_number(read(row)),
        priority,
        usual_width=usual_width,
        group=group,
        has_history=has_history,
    )


def name_column(
    heading: str, read: _ReadText[_T], priority: int, group: str = "", *, has_history: bool = False
) -> Column[_T]:
    """Return a column of names. Names are cut last."""
    column = text_column(heading, read, priority, _MIN_NAME_WIDTH, group, has_history=has_history)
    return replace(column, name_width=_NAME_WIDTH)


def condition_column(read: Callable[[_T], Finding], priority: int) -> Column[_T]:
    """Return a column of conditions in the colours of their severity."""
    return Column(
        "STATE",
        lambda row: Cell(read(row).word, SEVERITY_STYLES[read(row).severity]),
        lambda row: text_sort_key(read(row).word),
        priority,
        min_width=_MIN_NAME_WIDTH,
        name_width=_NAME_WIDTH,
        is_text=True,
    )


def _power_watts(row: DeviceRow) -> float | None:
    return as_number(row.power)


def _memory_used_bytes(row: DeviceRow) -> float | None:
    return as_number(row.memory_used)


def _power_cell(row: DeviceRow) -> Cell:
    cap = as_number(row.power_cap)
    if cap is None:
        return _value_cell(row.power, human.watts)
    power = _value_cell(row.power, human.watts).text.removesuffix(" W")
    return Cell(f"{power} / {human.watts(cap)}")


def _memory_cell(row: DeviceRow) -> Cell:
    used, total = as_number(row.memory_used), as_number(row.memory_total)
    if total is None:
        return _shared_memory_cell(row) or _value_cell(row.memory_used, human.byte_size)
    if used is None:
        return Cell(f"{ABSENT} / {human.byte_size(total)}")
    return Cell(human.byte_pair(used, total))


def _memory_share_cell(row: DeviceRow) -> Cell:
    used, total = as_number(row.memory_used), as_number(row.memory_total)
    if used is not None and total:
        return Cell(human.percent(used / total))
    return _shared_memory_cell(row) or _value_cell(row.memory_used, human.byte_size)


def _shared_memory_cell(row: DeviceRow) -> Cell | None:
    """Return a cell for a device that uses the host's memory and reports no use of its own, otherwise None."""
    if as_number(row.memory_used) is not None or not shares_host_memory(row.device):
        return None
    used = as_number(reading_value(row.device, "memory_processes_bytes"))
    return Cell(human.SHARED_WITH_HOST if used is None else f"{human.byte_size(used)} shared")


def _fan_cell(row: DeviceRow) -> Cell:
    ratio = reading_value(row.device, "fan_ratio")
    if as_number(ratio) is not None:
        return _value_cell(ratio, human.percent)
    return _value_cell(reading_value(row.device, "fan_rpm"), lambda rpm: f"{human.number_text(rpm)} rpm")


def active_throttle_reasons(device: MergedDevice) -> tuple[str, ...] | None:
    """Return the active throttling reasons, or None if no source reports them."""
    readings = Readings.of(device.readings)
    reported = [
        (label, value)
        for (metric, label), value in zip(readings.shape.keys, readings.values, strict=True)
        if metric == "throttled"
    ]
    numbers = [(label, value) for label, value in reported if not isinstance(value, Absent)]
    return tuple(label for label, value in numbers if value == 1.0) if numbers else None


def _throttled_text(row: DeviceRow) -> str | None:
    reasons = active_throttle_reasons(row.device)
    if reasons is None:
        return None
    return ", ".join(reason.replace("_", " ") or "yes" for reason in reasons) or "no"


def _clock_hertz(row: DeviceRow) -> Value | None:
    return kept_value(row.device, "clock_hertz")


def _memory_activity(row: DeviceRow) -> Value | None:
    return reading_value(row.device, "memory_activity_ratio")


def _process_count(row: DeviceRow) -> Value | None:
    reported = reading_value(row.device, "processes")
    return float(len(row.device.processes)) if as_number(reported) is None and row.device.processes else reported


def _owner_text(row: DeviceRow) -> str | None:
    if not row.device.allocations:
        return None
    return human.owners_summary(row.device.allocations)


VENDOR: Column[DeviceRow] = name_column("VENDOR", lambda row: row.device.vendor, 23, has_history=True)
# Names and states (priorities 0 and 1) are never dropped.
DEVICE_COLUMNS: tuple[Column[DeviceRow], ...] = (
    VENDOR,
    name_column("DEV", lambda row: row.device.device, 1, "device", has_history=True),
    name_column("DEVICE", lambda row: row.device.device, 7, "device", has_history=True),
    text_column("MODEL", lambda row: row.model, 10, 14, has_history=True),
    number_column("TEMP", lambda row: row.temperature, human.celsius, 2, 6, has_history=True),
    number_column("POWER", lambda row: row.power, human.watts, 5, 5, group="power", has_history=True),
    Column("POWER / CAP", _power_cell, _power_watts, 6, usual_width=11, group="power", has_history=True),
    Column("MEM", _memory_share_cell, _memory_used_bytes, 4, usual_width=5, group="memory", has_history=True),
    Column("MEMORY", _memory_cell, _memory_used_bytes, 8, usual_width=14, group="memory", has_history=True),
    number_column("UTIL", lambda row: row.utilization, human.percent, 3, 5, has_history=True),
    condition_column(lambda row: row.condition, 0),
    text_column("OWNER", _owner_text, 11, 14, has_history=True),
    text_column("THROTTLED", _throttled_text, 18, 9, has_history=True),
    number_column("CLOCK", _clock_hertz, human.hertz, 17, 8, has_history=True),
    number_column("MEM ACT", _memory_activity, human.percent, 21, 5, has_history=True),
    Column("FAN", _fan_cell, lambda row: as_number(reading_value(row.device, "fan_ratio")), 20, usual_width=5),
    number_column("PROCS", _process_count, human.number_text, 22, 3),
    text_column("BUS ID", lambda row: row.device.bus_id, 25, 12, has_history=True),
    text_column("DRIVER", lambda row: row.device.driver, 24, 12),
)


def with_visible_vendor(columns: Sequence[Column[_T]], vendors: Collection[str]) -> tuple[Column[_T], ...]:
    """Return the columns. If there are several vendors, the VENDOR column is never dropped."""
    if len(vendors) < 2:
        return tuple(columns)
    return tuple(replace(column, priority=-1) if column.heading == VENDOR.heading else column for column in columns)


def fit_columns(
    columns: Sequence[Column[_T]], full_width_of: Callable[[int], int], limit: int, gap: int = len(GAP)
) -> _Widths:
    """Choose the columns that fit into `limit`, and return their widths by index."""
    widths: _Widths = {}
    full_widths: _Widths = {}
    for index in sorted(range(len(columns)), key=lambda index: columns[index].priority):
        column = columns[index]
        if column.priority >= FIRST_OPTIONAL:  # optional columns share the width that texts do not need
            _grow_texts(columns, full_widths, widths, limit - gap * (len(widths) - 1))
        # A column replaces the chosen column of its group, if there is one.
        other_widths = {
            other: width for other, width in widths.items() if not column.group or columns[other].group != column.group
        }
        free_width = limit - sum(other_widths.values()) - gap * len(other_widths)
        needed_width = column.min_width or max(column.usual_width, len(column.heading))
        if free_width < (0 if column.name_width else needed_width):
            continue
        full_widths[index] = full_width_of(index)
        width = _initial_width(column, full_widths[index], free_width)
        if column.name_width and not widths:  # the first name is cut rather than dropped
            width = min(width, max(free_width, 1))
        if 0 < width <= free_width:
            widths = {**other_widths, index: width}
    limit -= gap * (len(widths) - 1)
    _grow_texts(columns, full_widths, widths, limit)
    _widen_drawings(columns, full_widths, widths, limit)
    return dict(sorted(widths.items()))


def _initial_width(column: Column[_T], full_width: int, free_width: int) -> int:
    cut_width = min(full_width, column.min_width or full_width)
    return max(cut_width, min(full_width, column.name_width, free_width))


def _grow_texts(columns: Sequence[Column[_T]], full_widths: _Widths, widths: _Widths, limit: int) -> None:
    """Widen columns with cut texts as far as `limit` allows, in order of priority."""
    for index in sorted(
        (index for index in widths if not columns[index].max_width), key=lambda index: columns[index].priority
    ):
        widths[index] += max(0, min(limit - sum(widths.values()), full_widths[index] - widths[index]))


def _widen_drawings(columns: Sequence[Column[_T]], full_widths: _Widths, widths: _Widths, limit: int) -> None:
    """Distribute the remaining width equally among the columns with drawings."""
    drawings = [index for index in widths if columns[index].max_width]
    while growing := [index for index in drawings if widths[index] < full_widths[index]]:
        free_width = limit - sum(widths.values())
        if free_width <= 0:
            return
        for index in growing[:free_width]:
            widths[index] += 1
