"""The terminal's view of a node: a line for each device, or all its readings, and then the troubles."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping

from telemetry_exporters import human
from telemetry_exporters.judgement import overview
from telemetry_exporters.judgement.verdict import judge
from telemetry_exporters.snapshot_filter import NO_METRICS, Metrics, screen, usable_metrics
from telemetry_exporters.terminal.columns import DEVICE_COLUMNS, GAP, OPTIONAL, VENDOR, Cell, Column, fitted, of_vendors
from telemetry_exporters.terminal.style import ABSENT, Colour, Style, paint
from telemetry_exporters.text import cut, display_width, pad_left, pad_right, wrapped
from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.model import Absent, MergedDevice, Snapshot, Value

# Narrower tables have one blank between columns. A table without a width has no limit.
_NARROW, _UNLIMITED = 60, 1_000_000
_COLUMNS = tuple(
    replace(column, priority=OPTIONAL) if column.heading == VENDOR.heading else column for column in DEVICE_COLUMNS
)
# The columns of a table without a width.
_USUAL_COLUMNS = tuple(column for column in _COLUMNS if column.priority <= OPTIONAL and column.heading != "OWNER")


class Detail(enum.Flag):
    """What is shown: the devices; also the reasons of absences, and processes; or every reading instead of the devices."""

    BRIEF = 0
    REASONS = 1
    PROCESSES = 2
    EVERYTHING = 4


@dataclass(frozen=True, slots=True)
class Chosen:
    """The devices (None: all), metrics and command lines to show. `origin` names the source of the snapshot in the heading."""

    ids: frozenset[str] | None = None
    patterns: tuple[str, ...] = ()
    origin: str = ""
    command_lines: Mapping[int, str] = field(default_factory=dict)


EVERY = Chosen()


def table(
    snapshot: Snapshot,
    width: int,
    colour: Colour,
    detail: Detail = Detail.BRIEF,
    plugin_metrics: Metrics = NO_METRICS,
    chosen: Chosen = EVERY,
) -> str:
    """Return the node as text for a terminal of that width (0: unlimited). Numbers are never cut."""
    shown = screen(snapshot, plugin_metrics)
    # A device is judged beside all others of its model.
    verdict = judge(shown)
    if chosen.ids is not None:
        shown = replace(shown, devices=tuple(device for device in shown.devices if device.id in chosen.ids))
    blocks = [_head(shown, chosen.origin, width, colour)]
    if Detail.EVERYTHING in detail:
        from telemetry_exporters.terminal import details  # for most tables it is not needed

        blocks += details.blocks(shown, verdict, usable_metrics(plugin_metrics), colour, width, chosen.patterns)
    elif shown.devices:
        blocks.append(_device_lines(overview.rows(shown, verdict), width, colour))
    else:
        blocks.append(_without_devices(shown, width))
    if Detail.PROCESSES in detail:
        from telemetry_exporters.terminal import details  # for most tables it is not needed

        blocks.append(details.process_lines(shown.devices, chosen.command_lines, shown.wall_time, width, colour))
    if Detail.REASONS in detail:
        blocks.append(_owners(shown.devices, width))
        blocks.append(_legend(overview.rows(shown, verdict), width, colour))
    blocks.append(
        [line for trouble in overview.troubles(shown, verdict) for line in _trouble_lines(trouble, width, colour)]
    )
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _head(snapshot: Snapshot, origin: str, width: int, colour: Colour) -> list[str]:
    heading = ", ".join(filter(None, (overview.title(snapshot), origin)))
    parts = ((heading, Style.BOLD), *((note, Style.WARNING) for note in overview.notes(snapshot)))
    return [paint(line, style, colour) for text, style in parts for line in wrapped(text, width, "  ")]


def _without_devices(snapshot: Snapshot, width: int) -> list[str]:
    """Return advice for a node without accelerators, with the installed sources."""
    present = [source for source in snapshot.sources if source.vendor and source.state != "missing"]
    words = ", ".join(f"{source.source} ({overview.source_condition(source).word})" for source in present)
    found = f"No accelerator found{f' by {words}' if words else ''}."
    ways = ("Try it with simulated cards: `telemetry top --demo`.", "To find out why: `telemetry doctor`.")
    return [line for text in (found, *ways) for line in wrapped(text, width, "  ")]


def _trouble_lines(trouble: overview.Trouble, width: int, colour: Colour) -> Iterator[str]:
    what = f"✗ {trouble.what}"
    first, *others = wrapped(f"{what}: {trouble.reason}", width, "  ")
    end = len(what) if first.startswith(what) else len(first)
    yield f"{paint(first[:end], Style.BAD, colour)}{first[end:]}"
    yield from others
    yield from wrapped(f"  → {trouble.remedy}", width, "    ")


def _device_lines(rows: tuple[overview.Row, ...], limit: int, colour: Colour) -> list[str]:
    columns = of_vendors(_COLUMNS if limit else _USUAL_COLUMNS, {row.device.vendor for row in rows})
    cells = [[column.cell(row) for row in rows] for column in columns]

    def natural(index: int) -> int:
        texts = [cell.text for cell in cells[index]]
        if columns[index].priority >= OPTIONAL and all(text == ABSENT for text in texts):
            return 0
        return max(map(display_width, (columns[index].heading, *texts)))

    gap = " " if 0 < limit < _NARROW else GAP
    kept = fitted(columns, natural, limit or _UNLIMITED, len(gap))
    heading = [(columns[index], Cell(columns[index].heading, Style.BOLD), width) for index, width in kept.items()]
    lines = [
        [(columns[index], cells[index][number], width) for index, width in kept.items()] for number in range(len(rows))
    ]
    return [_line(line, gap, colour) for line in (heading, *lines)]


def _line(parts: Iterable[tuple[Column[overview.Row], Cell, int]], gap: str, colour: Colour) -> str:
    texts = [
        ((pad_right if column.is_text else pad_left)(cut(cell.text, width), width), cell.style)
        for column, cell, width in parts
    ]
    *others, (last, style) = texts
    return gap.join(paint(text, one_style, colour) for text, one_style in (*others, (last.rstrip(), style)))


def _owners(devices: Iterable[MergedDevice], width: int) -> list[str]:
    """Return the owners of each device with their shares."""
    owned = [(device, allocation) for device in devices for allocation in device.allocations]
    if not owned:
        return []
    lines = (f"  {device.vendor} {device.device}: {human.allocation_text(allocation)}" for device, allocation in owned)
    return ["Owners:", *(part for line in lines for part in wrapped(line, width, "    "))]


def _legend(rows: tuple[overview.Row, ...], width: int, colour: Colour) -> list[str]:
    """Return the reasons of gaps in the table, by column, with their devices."""
    devices_by_gap: dict[tuple[str, str], list[MergedDevice]] = {}
    for row in rows:
        for name, value in _gaps(row):
            if row.device.up is not False and (value is None or isinstance(value, Absent)):
                why = "no source gives it" if value is None else value.value.replace("_", " ")
                devices_by_gap.setdefault((name, why), []).append(row.device)
    texts = [f"  {name}: {why} ({overview.device_list(devices)})" for (name, why), devices in devices_by_gap.items()]
    lines = [line for text in texts for line in wrapped(text, width, "    ")]
    return [paint(f"{ABSENT} is no reading:", Style.DIM, colour), *lines] if lines else []


def _gaps(row: overview.Row) -> Iterator[tuple[str, Value | None]]:
    yield "temperature", row.temperature
    yield "power", row.power
    yield "power cap", row.power_cap
    if not overview.shares_host_memory(row.device):
        yield "memory used", row.memory_used
        yield "memory total", row.memory_total
    yield "utilization", row.utilization
