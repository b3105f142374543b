"""The terminal's view of a node: a line for each device, or all its readings, and below them what is wrong."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping

from telemetry_exporters import details
from telemetry_exporters.columns import DEVICE_COLUMNS, Cell, Column
from telemetry_exporters.overview import (
    Row,
    Trouble,
    device_list,
    notes,
    rows,
    source_condition,
    title,
    troubles,
)
from telemetry_exporters.screen import NO_METRICS, screen, usable_metrics
from telemetry_exporters.style import ABSENT, Colour, Style, paint
from telemetry_exporters.text import cut, display_width, pad_left, pad_right
from telemetry_parsers.model import MergedDevice, Metric, Snapshot, Value

_GAP = "  "
_NARROWEST_MODEL = 8
# What every terminal shows; of several vendors, too.
_HEADINGS = ("VENDOR", "DEVICE", "MODEL", "TEMP", "POWER / CAP", "MEMORY", "UTIL", "STATE")
_COLUMNS = tuple({column.heading: column for column in DEVICE_COLUMNS if column.heading in _HEADINGS}.values())


class Detail(enum.Enum):
    """How much is shown: the devices, also the reasons of absences, or every reading."""

    BRIEF = "brief"
    REASONS = "reasons"
    EVERYTHING = "everything"


def table(
    snapshot: Snapshot,
    width: int,
    colour: Colour,
    detail: Detail = Detail.BRIEF,
    extra: Mapping[str, Metric] = NO_METRICS,
) -> str:
    """The node as text for a terminal of that width (0: unlimited); no number is ever cut."""
    shown = screen(snapshot, extra).snapshot
    blocks = [_head(shown, colour)]
    if detail is Detail.EVERYTHING:
        blocks += details.blocks(shown, usable_metrics(extra), colour)
    elif shown.devices:
        blocks.append(_device_lines(rows(shown), width, colour))
    else:
        blocks.append(_looked_with(shown))
    if detail is Detail.REASONS:
        blocks.append(_legend(rows(shown), colour))
    blocks.append([line for trouble in troubles(shown) for line in _trouble_lines(trouble, colour)])
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _head(snapshot: Snapshot, colour: Colour) -> list[str]:
    told = [paint(note, Style.WARNING, colour) for note in notes(snapshot)]
    return [paint(title(snapshot), Style.BOLD, colour), *told]


def _looked_with(snapshot: Snapshot) -> list[str]:
    looked = [f"{source.source} ({source_condition(source).word})" for source in snapshot.sources]
    return [f"Sources tried: {', '.join(looked)}" if looked else "No source was tried."]


def _trouble_lines(trouble: Trouble, colour: Colour) -> Iterator[str]:
    yield f"{paint('✗ ' + trouble.what, Style.BAD, colour)}: {trouble.why}"
    yield f"  → {trouble.remedy}"


def _device_lines(rows: tuple[Row, ...], width: int, colour: Colour) -> list[str]:
    cells = [[column.cell(row) for column in _COLUMNS] for row in rows]
    widths = {
        column.heading: max(display_width(text) for text in (column.heading, *(line[place].text for line in cells)))
        for place, column in enumerate(_COLUMNS)
    }
    # The models stand in the title as well; the vendor tells devices apart, unless it is the same for all.
    expendable = ("VENDOR", "MODEL") if len({row.device.vendor for row in rows}) == 1 else ("MODEL",)
    kept = _fit(widths, width, expendable)
    heading = [Cell(column.heading, Style.BOLD) for column in _COLUMNS]
    return [_line(zip(_COLUMNS, line, strict=True), kept, colour) for line in (heading, *cells)]


def _fit(widths: Mapping[str, int], limit: int, expendable: tuple[str, ...]) -> dict[str, int]:
    """The widths of the columns that are shown: first the model is cut, then the expendable columns go one by one."""
    kept = dict(widths)
    for going in (*expendable, ""):
        over = sum(kept.values()) + len(_GAP) * (len(kept) - 1) - limit
        if limit <= 0 or over <= 0:
            break
        if kept.get("MODEL", 0) - over >= _NARROWEST_MODEL:
            kept["MODEL"] -= over
            break
        kept.pop(going, None)
    return kept


def _line(parts: Iterable[tuple[Column[Row], Cell]], kept: Mapping[str, int], colour: Colour) -> str:
    texts = [
        ((pad_right if column.is_text else pad_left)(cut(cell.text, width), width), cell.style)
        for column, cell in parts
        if (width := kept.get(column.heading))
    ]
    *others, (last, style) = texts
    return _GAP.join(paint(text, one_style, colour) for text, one_style in (*others, (last.rstrip(), style)))


def _legend(rows: tuple[Row, ...], colour: Colour) -> list[str]:
    """Why the table has gaps: the reasons in each column, with their devices."""
    devices_by_gap: dict[tuple[str, str], list[MergedDevice]] = {}
    for row in rows:
        for name, value in _gaps(row):
            if row.device.up is not False and not isinstance(value, float):
                why = "no source gives it" if value is None else value.value.replace("_", " ")
                devices_by_gap.setdefault((name, why), []).append(row.device)
    lines = [f"  {name}: {why} ({device_list(devices)})" for (name, why), devices in devices_by_gap.items()]
    return [paint(f"{ABSENT} is no reading:", Style.DIM, colour), *lines] if lines else []


def _gaps(row: Row) -> Iterator[tuple[str, Value | None]]:
    yield "temperature", row.temperature
    yield "power", row.power
    yield "power cap", row.power_cap
    yield "memory used", row.memory_used
    yield "memory total", row.memory_total
    yield "utilization", row.utilization
