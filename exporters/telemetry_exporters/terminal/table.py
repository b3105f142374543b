"""The terminal's view of a node: a line for each device, or all its readings, and below them what is wrong."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from telemetry_exporters import human
from telemetry_exporters.judgement.overview import (
    Row,
    Trouble,
    device_list,
    notes,
    rows,
    shares_host_memory,
    source_condition,
    title,
    troubles,
)
from telemetry_exporters.judgement.verdict import judge
from telemetry_exporters.snapshot_filter import NO_METRICS, screen, usable_metrics
from telemetry_exporters.terminal.columns import DEVICE_COLUMNS, Cell, Column
from telemetry_exporters.terminal.style import ABSENT, Colour, Style, paint
from telemetry_exporters.text import cut, display_width, pad_left, pad_right, wrapped
from telemetry_parsers.model import Absent, MergedDevice, Metric, Snapshot, Value

_GAP = "  "
_NARROWEST_MODEL = 8
# Of what comes in where there is room for it, these may be cut to so many columns.
_NARROWEST = {"OWNER": 14}
# What every terminal shows; of several vendors, too.
_HEADINGS = ("VENDOR", "DEVICE", "MODEL", "TEMP", "POWER / CAP", "MEMORY", "UTIL", "STATE")
# Those and what wider terminals show, but not what stands for one of those where there is no room.
_COLUMNS = tuple(
    {column.heading: column for column in DEVICE_COLUMNS if column.heading in _HEADINGS or not column.slot}.values()
)


class Detail(enum.Flag):
    """How much is shown: the devices; also the reasons of absences, and processes; or every reading in place of the devices."""

    BRIEF = 0
    REASONS = 1
    PROCESSES = 2
    EVERYTHING = 4


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is to be seen: these devices (None: all), of everything these metrics; `origin` says in the heading who told it.

    `command_lines` are those of processes, by pid.
    """

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
    extra: Mapping[str, Metric] = NO_METRICS,
    chosen: Chosen = EVERY,
) -> str:
    """The node as text for a terminal of that width (0: unlimited); no number is ever cut."""
    shown = screen(snapshot, extra).snapshot
    # A device is judged beside all others of its model.
    verdict = judge(shown)
    if chosen.ids is not None:
        shown = replace(shown, devices=tuple(device for device in shown.devices if device.id in chosen.ids))
    blocks = [_head(shown, chosen.origin, width, colour)]
    if Detail.EVERYTHING in detail:
        from telemetry_exporters.terminal import details  # for most tables it is not needed

        blocks += details.blocks(shown, verdict, usable_metrics(extra), colour, width, chosen.patterns)
    elif shown.devices:
        blocks.append(_device_lines(rows(shown, verdict), width, colour))
    else:
        blocks.append(_without_devices(shown, width))
    if Detail.PROCESSES in detail:
        from telemetry_exporters.terminal import details  # for most tables it is not needed

        blocks.append(details.process_lines(shown.devices, chosen.command_lines, shown.wall_time, width, colour))
    if Detail.REASONS in detail:
        blocks.append(_owners(shown.devices, width))
        blocks.append(_legend(rows(shown, verdict), width, colour))
    blocks.append([line for trouble in troubles(shown, verdict) for line in _trouble_lines(trouble, width, colour)])
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _head(snapshot: Snapshot, origin: str, width: int, colour: Colour) -> list[str]:
    heading = ", ".join(filter(None, (title(snapshot), origin)))
    parts = ((heading, Style.BOLD), *((note, Style.WARNING) for note in notes(snapshot)))
    return [paint(line, style, colour) for text, style in parts for line in wrapped(text, width, "  ")]


def _without_devices(snapshot: Snapshot, width: int) -> list[str]:
    """Return what a user of a node without accelerators may try, with the sources that are installed."""
    present = [source for source in snapshot.sources if source.vendor and source.state != "missing"]
    words = ", ".join(f"{source.source} ({source_condition(source).word})" for source in present)
    found = f"No accelerator found{f' by {words}' if words else ''}."
    ways = ("Try it with simulated cards: `telemetry top --demo`.", "To find out why: `telemetry doctor`.")
    return [line for text in (found, *ways) for line in wrapped(text, width, "  ")]


def _trouble_lines(trouble: Trouble, width: int, colour: Colour) -> Iterator[str]:
    what = f"✗ {trouble.what}"
    first, *others = wrapped(f"{what}: {trouble.why}", width, "  ")
    end = len(what) if first.startswith(what) else len(first)
    yield f"{paint(first[:end], Style.BAD, colour)}{first[end:]}"
    yield from others
    yield from wrapped(f"  → {trouble.remedy}", width, "    ")


def _device_lines(rows: tuple[Row, ...], width: int, colour: Colour) -> list[str]:
    cells = [[column.cell(row) for column in _COLUMNS] for row in rows]
    widths = {
        column.heading: max(display_width(text) for text in (column.heading, *(line[place].text for line in cells)))
        for place, column in enumerate(_COLUMNS)
    }
    filled = [heading for place, heading in enumerate(widths) if any(line[place].text != ABSENT for line in cells)]
    # The models stand in the title as well; the vendor tells devices apart, unless it is the same for all.
    expendable = ("VENDOR", "MODEL") if len({row.device.vendor for row in rows}) == 1 else ("MODEL",)
    kept = _fit({heading: widths[heading] for heading in _HEADINGS}, width, expendable)
    _widen(kept, {heading: widths[heading] for heading in filled}, width)
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


def _widen(kept: dict[str, int], widths: Mapping[str, int], limit: int) -> None:
    """Take in what there is room for, the most important first, and of it only what some device tells."""
    for column in sorted(_COLUMNS, key=lambda column: column.priority):
        wanted = widths.get(column.heading)
        if wanted is None or column.heading in _HEADINGS:
            continue
        room = limit - sum(kept.values()) - len(_GAP) * len(kept)
        if min(wanted, _NARROWEST.get(column.heading, wanted)) <= room:
            kept[column.heading] = min(wanted, room)


def _line(parts: Iterable[tuple[Column[Row], Cell]], kept: Mapping[str, int], colour: Colour) -> str:
    texts = [
        ((pad_right if column.is_text else pad_left)(cut(cell.text, width), width), cell.style)
        for column, cell in parts
        if (width := kept.get(column.heading))
    ]
    *others, (last, style) = texts
    return _GAP.join(paint(text, one_style, colour) for text, one_style in (*others, (last.rstrip(), style)))


def _owners(devices: Iterable[MergedDevice], width: int) -> list[str]:
    """Who has each device, and on what basis."""
    owned = [(device, one) for device in devices for one in device.allocations]
    if not owned:
        return []
    told = (
        f"  {device.vendor} {device.device}: {human.who(one.owner)}: {human.share(one)}, {human.standing(one)}"
        for device, one in owned
    )
    return ["Owners:", *(line for text in told for line in wrapped(text, width, "    "))]


def _legend(rows: tuple[Row, ...], width: int, colour: Colour) -> list[str]:
    """Why the table has gaps: the reasons in each column, with their devices."""
    devices_by_gap: dict[tuple[str, str], list[MergedDevice]] = {}
    for row in rows:
        for name, value in _gaps(row):
            if row.device.up is not False and (value is None or isinstance(value, Absent)):
                why = "no source gives it" if value is None else value.value.replace("_", " ")
                devices_by_gap.setdefault((name, why), []).append(row.device)
    told = [f"  {name}: {why} ({device_list(devices)})" for (name, why), devices in devices_by_gap.items()]
    lines = [line for text in told for line in wrapped(text, width, "    ")]
    return [paint(f"{ABSENT} is no reading:", Style.DIM, colour), *lines] if lines else []


def _gaps(row: Row) -> Iterator[tuple[str, Value | None]]:
    yield "temperature", row.temperature
    yield "power", row.power
    yield "power cap", row.power_cap
    if not shares_host_memory(row.device):
        yield "memory used", row.memory_used
        yield "memory total", row.memory_total
    yield "utilization", row.utilization
