"""One card: what is said against it, a chart of its half hour, its events, and all its readings or why there is none."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from telemetry_exporters import human, owner_words
from telemetry_exporters.columns import SEVERITY_STYLES
from telemetry_exporters.frames.body import Body, of_lines, saying
from telemetry_exporters.frames.cards import Card, chosen_card
from telemetry_exporters.frames.chart import chart_lines
from telemetry_exporters.frames.lines import cut_whole, in_grey, time_of_day, wrapped
from telemetry_exporters.frames.model import Line, Piece, Size, State
from telemetry_exporters.frames.scene import Scene, chosen_scene, reason_at, value_at
from telemetry_exporters.labels import info_labels
from telemetry_exporters.past import KEPT, PastEvent
from telemetry_exporters.style import Style
from telemetry_exporters.text import clean, display_width, pad_left, pad_right
from telemetry_parsers.metrics import BY_KEY
from telemetry_parsers.model import Absent, MergedReading

_LONGEST_NAME, _LONGEST_REASON = 34, 24
_BETWEEN = 3
_MOST_EVENTS = 20
# Name, value or the reason of its absence, source, and whether there is a number.
_Entry = tuple[str, str, str, bool]


def body(state: State, size: Size) -> Body:
    """The chosen card of the chosen node."""
    scene = chosen_scene(state)
    card = None if scene is None else chosen_card(state, scene)
    if scene is None or card is None:
        return saying("No card is known yet.", size.columns)
    lines = [
        *_heading(card, scene, size.columns),
        *_owners(card, scene, size.columns),
        *chart_lines(state, scene, card, size),
        *_events(card, scene, size.columns),
        *_entries(_past_readings(card, scene) if scene.slot is not None else _readings(card), size.columns),
        *_facts(card, size.columns),
        *_processes(card, scene, size.columns),
    ]
    return of_lines([in_grey(line) for line in lines] if scene.is_old else lines)


def _heading(card: Card, scene: Scene, width: int) -> Iterator[Line]:
    device, condition = card.row.device, card.row.condition
    name = " ".join(filter(None, (device.vendor, device.device, card.row.model)))
    state = "" if scene.slot is not None else f"  {condition.word}"
    short = cut_whole(name, max(8, width - display_width(state)))
    yield (Piece(short, Style.BOLD), Piece(state, SEVERITY_STYLES[condition.severity]))
    told: set[str] = set()
    if scene.slot is None:
        for finding in card.row.findings:
            said = ": ".join(filter(None, (finding.word, finding.meaning)))
            if finding.meaning or finding.remedy:
                yield from wrapped(said, width, SEVERITY_STYLES[finding.severity], "    ", "  ")
            if finding.remedy and finding.remedy not in told:
                told.add(finding.remedy)
                yield from wrapped(f"→ {finding.remedy}", width, indent="    ", begin="  ")


def _title(text: str) -> Line:
    return (Piece(text, Style.BOLD),)


def _events(card: Card, scene: Scene, width: int) -> Iterator[Line]:
    """The newest first; in the past those that had happened."""
    end = scene.past.start + card.window.end * scene.past.slot_seconds
    events = [
        event
        for event in scene.past.events
        if event.id == card.row.device.id and (scene.slot is None or event.wall_time < end)
    ]
    if not events:
        return
    yield _title("events of the last 30 minutes")
    newest = sorted(events, key=lambda event: event.wall_time, reverse=True)
    for event in newest[:_MOST_EVENTS]:
        yield from wrapped(_event_words(event), width, Style.WARNING, "    ", "  ")
    if len(newest) > _MOST_EVENTS:
        yield (Piece(f"and {len(newest) - _MOST_EVENTS} older ones", Style.DIM),)


def _event_words(event: PastEvent) -> str:
    return clean(f"{time_of_day(event.wall_time)} {event.code} {event.text}".rstrip())


def _readings(card: Card) -> Sequence[_Entry]:
    return [_entry(reading) for reading in card.row.device.readings]


def _entry(reading: MergedReading) -> _Entry:
    metric = BY_KEY[reading.metric]
    name = f"{human.name(metric)} {reading.label}".strip()
    if isinstance(reading.value, Absent):
        return name, reading.value.value.replace("_", " "), reading.source, False
    return name, human.in_words(reading.value, metric), reading.source, True


def _past_readings(card: Card, scene: Scene) -> Sequence[_Entry]:
    slot = -1 if scene.slot is None else scene.slot
    found: list[_Entry] = []
    for key in KEPT:
        series = card.series.get(key)
        value = math.nan if series is None else value_at(series, slot)
        name = human.name(BY_KEY[key])
        if not math.isnan(value):
            found.append((name, human.in_words(value, BY_KEY[key]), "", True))
        else:
            found.append((name, clean(reason_at(series, slot)) if series else "not kept", "", False))
    return [*found, ("all other readings", "not kept", "", False)]


def _entries(entries: Sequence[_Entry], width: int) -> Iterator[Line]:
    """The readings, in as many columns as there is room for."""
    if not entries:
        return
    yield _title("readings")
    entries = [_short(entry) for entry in entries]
    names = min(max(display_width(name) for name, *_ in entries), _LONGEST_NAME)
    values = max(display_width(value) for _, value, *_ in entries)
    sources = max(display_width(source) for *_, source, _ in entries)
    if names + values + sources + 6 > width:
        sources = 0
    names = max(1, min(names, width - values - 4))
    block = names + values + 4 + (sources + 2 if sources else 0)
    columns = max(1, (width + _BETWEEN) // (block + _BETWEEN))
    height = -(-len(entries) // columns)
    for row in range(height):
        pieces: list[Piece] = []
        for name, value, source, is_number in entries[row::height]:
            text = f"  {pad_right(cut_whole(name, names), names)}  {pad_left(value, values)}"
            text += f"  {pad_right(source, sources)}" if sources else ""
            pieces.append(Piece(text + " " * _BETWEEN, Style.PLAIN if is_number else Style.DIM))
        yield (*pieces[:-1], Piece(pieces[-1].text.rstrip(), pieces[-1].style))


def _short(entry: _Entry) -> _Entry:
    """The same with a reason that fits beside the numbers; the gaps below the chart have the whole one."""
    name, value, source, is_number = entry
    return name, value if is_number else cut_whole(clean(value), _LONGEST_REASON), source, is_number


def _facts(card: Card, width: int) -> Iterator[Line]:
    device = card.row.device
    yield _title("identity")
    for name, value in (("id", device.id), *info_labels(device)):
        yield from wrapped(f"{name.replace('_', ' ')}: {value}", width, indent="    ", begin="  ")


def _processes(card: Card, scene: Scene, width: int) -> Iterator[Line]:
    if scene.slot is not None:
        yield (Piece("The processes of the past are not kept.", Style.DIM),)
    elif card.row.device.processes:
        yield _title("processes")
    for process in card.row.device.processes:
        memory = process.memory_used_bytes
        words = "memory unknown" if memory is None else human.byte_size(memory)
        about = owner_words.about_process(process)
        yield from wrapped(f"{process.pid}, {words}, {about}", width, indent="    ", begin="  ")


def _owners(card: Card, scene: Scene, width: int) -> Iterator[Line]:
    """Who has the card now, and on what basis."""
    if scene.slot is None and card.row.device.allocations:
        yield _title("owners")
        for one in card.row.device.allocations:
            words = f"{owner_words.who(one.owner)}: {owner_words.share(one)}, {owner_words.standing(one)}"
            yield from wrapped(words, width, indent="    ", begin="  ")
