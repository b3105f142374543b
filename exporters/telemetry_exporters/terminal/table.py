"""Formats a node as text for the terminal."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping

from telemetry_exporters import human
from telemetry_exporters.judgement import overview
from telemetry_exporters.judgement.verdict import judge
from telemetry_exporters.snapshot_filter import NO_METRICS, Metrics, clean_snapshot, usable_metrics
from telemetry_exporters.terminal.columns import (
    DEVICE_COLUMNS,
    FIRST_OPTIONAL,
    GAP,
    VENDOR,
    Cell,
    Column,
    fit_columns,
    with_visible_vendor,
)
from telemetry_exporters.terminal.style import ABSENT, Colour, Style, paint
from telemetry_exporters.text import cut, display_width, pad_left, pad_right, wrapped
from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.model import Absent, MergedDevice, Snapshot, Value

# Narrow tables have only one blank between columns. A width of 0 is replaced with `_UNLIMITED`.
_NARROW, _UNLIMITED = 60, 1_000_000
_COLUMNS = tuple(
    replace(column, priority=FIRST_OPTIONAL) if column.heading == VENDOR.heading else column
    for column in DEVICE_COLUMNS
)
# The columns of a table without a width limit.
_USUAL_COLUMNS = tuple(column for column in _COLUMNS if column.priority <= FIRST_OPTIONAL and column.heading != "OWNER")


class Detail(enum.Flag):
    """The parts of the output that are shown."""

    BRIEF = 0
    REASONS = 1
    PROCESSES = 2
    EVERYTHING = 4


@dataclass(frozen=True, slots=True)
class Selection:
    """The devices, metrics and command lines to show."""

    ids: frozenset[str] | None = None
    patterns: tuple[str, ...] = ()
    origin: str = ""
    command_lines: Mapping[int, str] = field(default_factory=dict)


ALL = Selection()


def table(
    snapshot: Snapshot,
    width: int,
    colour: Colour,
    detail: Detail = Detail.BRIEF,
    plugin_metrics: Metrics = NO_METRICS,
    selection: Selection = ALL,
) -> str:
    """Return the node as text. A width of 0 means no limit."""
    snapshot = clean_snapshot(snapshot, plugin_metrics)
    # Devices are selected after the verdict, because the verdict compares all devices of a model.
    verdict = judge(snapshot)
    if selection.ids is not None:
        snapshot = replace(snapshot, devices=tuple(device for device in snapshot.devices if device.id in selection.ids))
    blocks = [_heading_lines(snapshot, selection.origin, width, colour)]
    if Detail.EVERYTHING in detail:
        from telemetry_exporters.terminal import details  # imported here, because most tables need no details

        blocks += details.blocks(snapshot, verdict, usable_metrics(plugin_metrics), colour, width, selection.patterns)
    elif snapshot.devices:
        blocks.append(_device_lines(overview.rows(snapshot, verdict), width, colour))
    else:
        blocks.append(_no_device_lines(snapshot, width))
    if Detail.PROCESSES in detail:
        from telemetry_exporters.terminal import details  # imported here, because most tables need no details

        command_lines = selection.command_lines
        blocks.append(details.process_lines(snapshot.devices, command_lines, snapshot.wall_time, width, colour))
    if Detail.REASONS in detail:
        blocks.append(_owner_lines(snapshot.devices, width))
        blocks.append(_absence_lines(overview.rows(snapshot, verdict), width, colour))
    blocks.append(
        [line for trouble in overview.troubles(snapshot, verdict) for line in _trouble_lines(trouble, width, colour)]
    )
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _heading_lines(snapshot: Snapshot, origin: str, width: int, colour: Colour) -> list[str]:
    heading = ", ".join(filter(None, (overview.title(snapshot), origin)))
    styled_texts = ((heading, Style.BOLD), *((note, Style.WARNING) for note in overview.notes(snapshot)))
    return [paint(line, style, colour) for text, style in styled_texts for line in wrapped(text, width, "  ")]


def _no_device_lines(snapshot: Snapshot, width: int) -> list[str]:
    present = [status for status in snapshot.sources if status.vendor and status.state != "missing"]
    source_names = ", ".join(f"{status.source} ({overview.source_condition(status).word})" for status in present)
    result = f"No accelerator found{f' by {source_names}' if source_names else ''}."
    advice = ("Try it with simulated cards: `telemetry top --demo`.", "To find out why: `telemetry doctor`.")
    return [line for text in (result, *advice) for line in wrapped(text, width, "  ")]


def _trouble_lines(trouble: overview.Trouble, width: int, colour: Colour) -> Iterator[str]:
    heading = f"✗ {trouble.what}"
    first_line, *other_lines = wrapped(f"{heading}: {trouble.reason}", width, "  ")
    end = len(heading) if first_line.startswith(heading) else len(first_line)
    yield f"{paint(first_line[:end], Style.BAD, colour)}{first_line[end:]}"
    yield from other_lines
    yield from wrapped(f"  → {trouble.remedy}", width, "    ")


def _device_lines(rows: tuple[overview.DeviceRow, ...], limit: int, colour: Colour) -> list[str]:
    columns = with_visible_vendor(_COLUMNS if limit else _USUAL_COLUMNS, {row.device.vendor for row in rows})
    cells = [[column.cell(row) for row in rows] for column in columns]

    def full_width(index: int) -> int:
        texts = [cell.text for cell in cells[index]]
        if columns[index].priority >= FIRST_OPTIONAL and all(text == ABSENT for text in texts):
            return 0
        return max(map(display_width, (columns[index].heading, *texts)))

    gap = " " if 0 < limit < _NARROW else GAP
    widths = fit_columns(columns, full_width, limit or _UNLIMITED, len(gap))
    heading = [(columns[index], Cell(columns[index].heading, Style.BOLD), width) for index, width in widths.items()]
    cell_rows = [
        [(columns[index], cells[index][row], width) for index, width in widths.items()] for row in range(len(rows))
    ]
    return [_paint_line(cell_row, gap, colour) for cell_row in (heading, *cell_rows)]


def _paint_line(cells: Iterable[tuple[Column[overview.DeviceRow], Cell, int]], gap: str, colour: Colour) -> str:
    texts = [
        ((pad_right if column.is_text else pad_left)(cut(cell.text, width), width), cell.style)
        for column, cell, width in cells
    ]
    *other_texts, (last_text, last_style) = texts
    return gap.join(paint(text, style, colour) for text, style in (*other_texts, (last_text.rstrip(), last_style)))


def _owner_lines(devices: Iterable[MergedDevice], width: int) -> list[str]:
    pairs = [(device, allocation) for device in devices for allocation in device.allocations]
    if not pairs:
        return []
    lines = (f"  {device.vendor} {device.device}: {human.allocation_text(allocation)}" for device, allocation in pairs)
    return ["Owners:", *(wrapped_line for line in lines for wrapped_line in wrapped(line, width, "    "))]


def _absence_lines(rows: tuple[overview.DeviceRow, ...], width: int, colour: Colour) -> list[str]:
    """Return a line for each missing value and reason, with the devices concerned."""
    devices_by_reason: dict[tuple[str, str], list[MergedDevice]] = {}
    for row in rows:
        for name, value in _table_values(row):
            if row.device.up is not False and (value is None or isinstance(value, Absent)):
                why = overview.missing_text(row.device) if value is None else value.value.replace("_", " ")
                devices_by_reason.setdefault((name, why), []).append(row.device)
    texts = [f"  {name}: {why} ({overview.device_list(devices)})" for (name, why), devices in devices_by_reason.items()]
    lines = [line for text in texts for line in wrapped(text, width, "    ")]
    return [paint(f"{ABSENT} means no reading:", Style.DIM, colour), *lines] if lines else []


def _table_values(row: overview.DeviceRow) -> Iterator[tuple[str, Value | None]]:
    yield "temperature", row.temperature
    yield "power", row.power
    yield "power cap", row.power_cap
    if not overview.shares_host_memory(row.device):
        yield "memory used", row.memory_used
        yield "memory total", row.memory_total
    yield "utilization", row.utilization
