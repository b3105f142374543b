"""The readings of a card in columns, grouped by subject."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from telemetry_exporters import human
from telemetry_exporters.terminal.frames.cards import Card
from telemetry_exporters.terminal.frames.counters import Counters
from telemetry_exporters.terminal.frames.lines import cut_text, wrapped
from telemetry_exporters.terminal.frames.model import Line, Piece, Scene, reason_at, value_at
from telemetry_exporters.terminal.style import Style
from telemetry_exporters.text import clean, display_width, pad_left, pad_right
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.metrics import BY_KEY
from telemetry_parsers.model import Absent, MergedReading
from telemetry_parsers.past import KEPT

_LINK_UP = "link_up"
_MAX_NAME_LENGTH, _MAX_REASON_LENGTH = 34, 24
_COLUMN_GAP = 3
_MAX_ZEROS_WIDTH = 4000
_SUBJECTS = ("heat", "power", "memory", "links", "errors", "work", "state")
# A metric belongs to the first subject with a word that its name contains, otherwise to `work`.
_SUBJECT_WORDS = (
    ("state", ("enabled", "watch", "state", "health", "action", "performance", "suspended", "processes")),
    ("heat", ("temperature", "fan", "throttled")),
    ("errors", ("error", "ecc", "replay", "retired", "remap", "event")),
    ("power", ("power", "energy", "voltage")),
    ("links", ("link", "pcie")),
    ("memory", ("memory", "bar1")),
)
# Metrics with these labels have a reading for each state: 1 for the current state, and 0 for all others.
_STATE_LABELS = frozenset({"level", "state", "action"})
_SHOWN_ZEROS = frozenset({*KEPT, _LINK_UP, "ecc_enabled", "performance_state", "processes"}) - {"throttled"}


@dataclass(frozen=True, slots=True)
class Entry:
    """A formatted reading."""

    name: str
    label: str
    value: str
    source: str = ""
    has_number: bool = True
    is_zero: bool = False

    @property
    def full_name(self) -> str:
        """Return the name with the label."""
        return f"{self.name} {self.label}".rstrip()

    @property
    def short_value(self) -> str:
        """Return the value, or the reason why it is absent. A long reason is cut."""
        return self.value if self.has_number else cut_text(clean(self.value), _MAX_REASON_LENGTH)


Groups = Mapping[str, Sequence[Entry]]


def current_groups(card: Card, counters: Counters) -> Groups:
    """Return the card's readings by subject."""
    groups: dict[str, list[Entry]] = {subject: [] for subject in _SUBJECTS}
    links = [
        link for link in card.row.device.readings if link.metric == _LINK_UP and not isinstance(link.value, Absent)
    ]
    if len(links) > 1:
        up_count = sum(1 for link in links if link.value)
        groups["links"].append(Entry("links up", "", f"{up_count} / {len(links)}", links[0].source))
    for reading in card.row.device.readings:
        is_counted_link = len(links) > 1 and bool(reading.value) and reading in links
        if not is_counted_link and not _is_inactive_state(reading):
            groups[_subject_of(reading.metric)].append(_create_entry(reading, card.row.device.id, counters))
    return groups


def _subject_of(metric: str) -> str:
    return next((subject for subject, words in _SUBJECT_WORDS if any(word in metric for word in words)), "work")


def _is_inactive_state(reading: MergedReading) -> bool:
    return BY_KEY[reading.metric].label in _STATE_LABELS and reading.value == 0.0


def _create_entry(reading: MergedReading, device: str, counters: Counters) -> Entry:
    metric, value = BY_KEY[reading.metric], reading.value
    name = human.metric_name(metric)
    if isinstance(value, Absent):
        return Entry(name, reading.label, value.value.replace("_", " "), reading.source, has_number=False)
    if metric.label in _STATE_LABELS:
        return Entry(name, "", reading.label.replace("_", " "), reading.source)
    if metric.high == 1.0 and not metric.unit:
        is_folded = not value and metric.key not in _SHOWN_ZEROS
        return Entry(name, reading.label, "yes" if value else "no", reading.source, is_zero=is_folded)
    counter = counters.by_key.get((device, reading.metric, reading.label))
    if counter is not None:
        is_constant = not (counter.per_second if metric.unit and counter.per_second is not None else value)
        return Entry(name, reading.label, counter.text(metric), reading.source, is_zero=is_constant)
    is_zero = value == 0.0 and metric.unit != "celsius" and metric.key not in _SHOWN_ZEROS
    return Entry(name, reading.label, human.value_text(value, metric), reading.source, is_zero=is_zero)


def past_groups(card: Card, scene: Scene) -> Groups:
    """Return the card's readings from the chosen slot of the history."""
    slot = -1 if scene.past_slot is None else scene.past_slot
    entries: list[Entry] = []
    for key in KEPT:
        series = card.series.get(key)
        value = math.nan if series is None else value_at(series, slot)
        name = human.metric_name(BY_KEY[key])
        if not math.isnan(value):
            entries.append(Entry(name, "", human.value_text(value, BY_KEY[key])))
        else:
            entries.append(Entry(name, "", clean(reason_at(series, slot)) if series else "not kept", has_number=False))
    return {"readings": [*entries, Entry("all other readings", "", "not kept", has_number=False)]}


def matching_entries(entries: Sequence[Entry], filter_text: str) -> Sequence[Entry]:
    """Return the entries whose name and label contain all words of the filter."""
    words = filter_text.lower().split()
    return [entry for entry in entries if all(word in entry.full_name.lower() for word in words)]


def heading(text: str) -> Line:
    """Return a bold line that shows `text` above a group of readings."""
    return (Piece(text, Style.BOLD),)


def group_lines(groups: Groups, width: int) -> Iterator[Line]:
    """Yield a heading and lines for each group with readings. Readings that are 0 share one line."""
    nonzero = {subject: [entry for entry in entries if not entry.is_zero] for subject, entries in groups.items()}
    widths = _Widths.for_entries([entry for entries in nonzero.values() for entry in entries], width)
    for subject, entries in groups.items():
        if entries:
            yield heading(f"{subject}: none" if subject == "errors" and not nonzero[subject] else subject)
        yield from _lines_in_columns(nonzero[subject], widths, width)
        zeros = ", ".join(_names_with_labels([entry for entry in entries if entry.is_zero]))
        if zeros:
            yield from wrapped(f"0  {zeros}", width, Style.DIM, "     ", "  ", _MAX_ZEROS_WIDTH)


def _names_with_labels(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield each distinct name once, with the labels of all entries that have the name."""
    for name in dict.fromkeys(entry.name for entry in entries):
        labels = [entry.label for entry in entries if entry.name == name and entry.label]
        yield f"{name} {labels[0]}" if len(labels) == 1 else f"{name} ({', '.join(labels)})" if labels else name


@dataclass(frozen=True, slots=True)
class _Widths:
    """The widths of the names, values and sources in all groups."""

    names: int
    values: int
    sources: int

    @classmethod
    def for_entries(cls, entries: Sequence[Entry], width: int) -> _Widths:
        """Return widths that fit the entries. Long names are cut, and narrow terminals show no sources."""
        names = min(max((display_width(entry.full_name) for entry in entries), default=0), _MAX_NAME_LENGTH)
        values = max((display_width(entry.short_value) for entry in entries), default=0)
        sources = max((display_width(entry.source) for entry in entries), default=0)
        if names + values + sources + 6 > width:
            sources = 0
        return cls(max(1, min(names, width - values - 4)), values, sources)


def _lines_in_columns(entries: Sequence[Entry], widths: _Widths, width: int) -> Iterator[Line]:
    names, values, sources = widths.names, widths.values, widths.sources
    column_width = names + values + 4 + (sources + 2 if sources else 0)
    columns = max(1, (width + _COLUMN_GAP) // (column_width + _COLUMN_GAP))
    height = -(-len(entries) // columns)
    for row in range(height):
        pieces: list[Piece] = []
        for entry in entries[row::height]:
            text = f"  {pad_right(cut_text(entry.full_name, names), names)}  {pad_left(entry.short_value, values)}"
            text += f"  {pad_right(entry.source, sources)}" if sources else ""
            pieces.append(Piece(text + " " * _COLUMN_GAP, Style.PLAIN if entry.has_number else Style.DIM))
        yield (*pieces[:-1], Piece(pieces[-1].text.rstrip(), pieces[-1].style))
