"""The parts of another exporter's table: rows, labels, and the ways from a device's readings to the numbers of a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

from telemetry_exporters.prometheus.labels import Labels
from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.model import Kind, MergedDevice


@dataclass(frozen=True, slots=True)
class Node:
    """The node as other exporters name it."""

    hostname: str
    kubernetes_name: str = ""
    reports_owners: bool = (
        False  # whether attribution is on: then each card has labels of pods, empty ones without a pod
    )
    address: str = ""


@dataclass(frozen=True, slots=True)
class Who:
    """A device, its whole card (or itself), and the labels of its only owner."""

    device: MergedDevice
    card: MergedDevice
    node: Node
    owner: Mapping[str, str]
    is_divided: bool = False  # whether the device is a card with partitions

    def fact(self, name: str) -> str:
        """Return a fact of the device, else of the whole card; empty if neither has it."""
        return dict(self.device.facts).get(name) or dict(self.card.facts).get(name, "")


# The value of another exporter's label for a device; None leaves the label out.
Fact = Callable[[Who], str | None]


@dataclass(frozen=True, slots=True)
class Reported:
    """A device with the positions of its numbers on the page, by metric and word."""

    who: Who
    positions: Mapping[str, Mapping[str, int]]
    gaps: frozenset[str]  # metrics with an absent number that the device supports
    decisive: Callable[[int], float]  # reads a number that decides which lines the page has

    def words(self, metric: str) -> Mapping[str, int]:
        """Return the positions of the metric's numbers by word; the word is empty for a metric without a label."""
        return self.positions.get(metric, {})


_EVENTS = "event_last_timestamp_seconds"
_EVENT_WATCH = "event_watch"
# The word for the sum of all locations of a metric.
_ALL = "all"


@dataclass(frozen=True, slots=True)
class Cell:
    """A number of a page: the sum of the values at `positions` minus those at `minus`, or a constant; with its labels."""

    positions: tuple[int, ...] = ()
    constant: float = 0.0
    labels: Labels = ()
    minus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class One:
    """The first of these readings that the device has."""

    readings: tuple[str, ...]

    def cells(self, reported: Reported) -> Iterable[Cell]:
        """Return at most one number."""
        for metric, word in map(split, self.readings):
            position = reported.words(metric).get(word)
            if position is not None:
                return (Cell((position,)),)
        return ()


@dataclass(frozen=True, slots=True)
class _OfMetric:
    metric: str

    @property
    def readings(self) -> tuple[str, ...]:
        """Return the readings from which the numbers come."""
        return (self.metric,)


@dataclass(frozen=True, slots=True)
class Total(_OfMetric):
    """The sum that the device reports, else the sum over its locations if none of them is absent."""

    def cells(self, reported: Reported) -> Iterable[Cell]:
        """Return at most one number."""
        words = reported.words(self.metric)
        if _ALL in words:
            return (Cell((words[_ALL],)),)
        return (Cell(tuple(words.values())),) if words and self.metric not in reported.gaps else ()


@dataclass(frozen=True, slots=True)
class Rest:
    """The first reading minus the second, as the other exporter computes it."""

    readings: tuple[str, str]

    def cells(self, reported: Reported) -> Iterable[Cell]:
        """Return one number, or none if a reading is absent."""
        whole, part = (reported.words(metric).get(word) for metric, word in map(split, self.readings))
        return () if whole is None or part is None else (Cell((whole,), minus=(part,)),)


@dataclass(frozen=True, slots=True)
class Each(_OfMetric):
    """A number for each word of the metric's label. A word for which `named` returns nothing is left out."""

    label: str
    named: Callable[[str], str | None] = str

    def cells(self, reported: Reported) -> Iterable[Cell]:
        """Return a number for each word."""
        named = ((self.named(word), position) for word, position in reported.words(self.metric).items())
        return [Cell((position,), labels=((self.label, name),)) for name, position in named if name]


@dataclass(frozen=True, slots=True)
class Numbered(_OfMetric):
    """A number for each word of the metric's label, counted from 0 under the other exporter's label."""

    label: str

    def cells(self, reported: Reported) -> Iterable[Cell]:
        """Return a number for each word. The sum of all is included only if there is nothing else."""
        words = reported.words(self.metric)
        positions = [position for word, position in words.items() if word != _ALL]
        if positions:
            return [Cell((position,), labels=((self.label, str(number)),)) for number, position in enumerate(positions)]
        return [Cell((position,), labels=((self.label, word),)) for word, position in words.items()]


@dataclass(frozen=True, slots=True)
class NumberOf(_OfMetric):
    """The number that stands for the active state of a device."""

    numbers: Mapping[str, float]

    def cells(self, reported: Reported) -> Iterable[Cell]:
        """Return one number, or none if the active state has none."""
        active = [word for word, position in reported.words(self.metric).items() if reported.decisive(position)]
        return [Cell(constant=self.numbers[word]) for word in active[:1] if word in self.numbers]


@dataclass(frozen=True, slots=True)
class Always:
    """The same number for each device, for rows whose labels matter."""

    number: float = 1.0
    readings: tuple[str, ...] = ("info",)

    def cells(self, reported: Reported) -> Iterable[Cell]:
        """Return one number, or none for a lost device."""
        return (Cell(constant=self.number),) if is_here(reported) else ()


@dataclass(frozen=True, slots=True)
class OfFact:
    """The number for a fact by a table, or without a table the fact as a number."""

    fact: Fact
    numbers: Mapping[str, float] = field(default_factory=dict)
    readings: tuple[str, ...] = ("info",)

    def cells(self, reported: Reported) -> Iterable[Cell]:
        """Return at most one number."""
        text = (self.fact(reported.who) or "") if is_here(reported) else ""
        if self.numbers:
            return [Cell(constant=self.numbers[text])] if text in self.numbers else []
        return [Cell(constant=float(text))] if is_number(text.replace(".", "", 1)) else []


@dataclass(frozen=True, slots=True)
class NewestCode:
    """The number in the newest event's code, or 0 if events are watched for and none has occurred."""

    prefix: str
    labels: tuple[str, ...] = ()  # of the code and its message
    none: tuple[str, ...] = ()  # the labels' values for 0
    readings: tuple[str, ...] = (_EVENTS, _EVENT_WATCH)

    def cells(self, reported: Reported) -> Iterable[Cell]:
        """Return one number, or none if events are not watched for and none occurred."""
        times = {word.removeprefix(self.prefix): position for word, position in reported.words(_EVENTS).items()}
        codes = {code: reported.decisive(position) for code, position in times.items() if is_number(code)}
        if codes:
            newest = max(codes, key=lambda code: codes[code])
            texts = (newest, *("" for _ in self.none[1:]))
            return [Cell(constant=float(newest), labels=tuple(zip(self.labels, texts, strict=True)))]
        calm = Cell(labels=tuple(zip(self.labels, self.none, strict=True)))
        return [calm for position in reported.words(_EVENT_WATCH).values() if reported.decisive(position)]


@dataclass(frozen=True, slots=True)
class Turned:
    """The number of another way, converted; for values that seldom change."""

    way: One | Total
    turn: Callable[[float], float | None]

    @property
    def readings(self) -> tuple[str, ...]:
        """Return the readings of the other way."""
        return self.way.readings

    def cells(self, reported: Reported) -> Iterable[Cell]:
        """Return one number, or none if it cannot be converted."""
        numbers = [sum(map(reported.decisive, cell.positions)) for cell in self.way.cells(reported)]
        return [Cell(constant=number) for number in map(self.turn, numbers) if number is not None]


Way = One | Total | Rest | Each | Numbered | NumberOf | Always | OfFact | NewestCode | Turned


def one(*readings: str) -> One:
    """Return the way to the first of these readings that the device has."""
    return One(readings)


def is_here(reported: Reported) -> bool:
    """Return whether the device is present now."""
    return any(reported.decisive(position) for position in reported.words("up").values())


@lru_cache(maxsize=512)
def split(reading: str) -> tuple[str, str]:
    """Return metric and word of `metric{word}`; the word is empty without braces."""
    metric, _, word = reading.partition("{")
    return metric, word.removesuffix("}")


def is_number(text: str) -> bool:
    """Return whether the text is a whole number of a reasonable length."""
    return text.isascii() and text.isdecimal() and len(text) < 16


# The numbers of several exporters for states of health, and GT/s by PCIe generation.
HEALTHY: Mapping[str, float] = MappingProxyType({"ok": 1.0, "warning": 0.0, "alarm": 0.0, "critical": 0.0})
GIGATRANSFERS: Mapping[float, float] = MappingProxyType({1.0: 2.5, 2.0: 5.0, 3.0: 8.0, 4.0: 16.0, 5.0: 32.0, 6.0: 64.0})
MEBI = 1 / (1 << 20)
KIBI = 1 / (1 << 10)
PERCENT = 100.0
MEGA = 1e-6
MILLI = 1e3
MICRO = 1e6
NANO = 1e9


# Decimals that are kept: 100 × 0.29 is 28.999999999999996.
DIGITS = 6
# Restricts a row to whole cards, partitions, cards without partitions, or partitions and cards without any.
Only = Literal["", "cards", "partitions", "undivided", "leaves"]


@dataclass(frozen=True, slots=True)
class Label:
    """A label of another exporter, with its value for a device."""

    name: str
    fact: Fact


@dataclass(frozen=True, slots=True)
class Row:
    """A family of another exporter. Several rows may have one name and different labels."""

    name: str  # without the exporter's prefix
    help: str
    way: Way
    times: float = 1.0
    kind: Kind = "gauge"
    labels: Labels = ()
    facts: tuple[Label, ...] = ()
    near: str = ""  # the difference to the other exporter's numbers, empty if there is none
    only: Only = ""
    digits: int = DIGITS  # decimals that the other exporter prints


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A family about the other exporter itself, or the number of devices."""

    name: str
    help: str
    metric: str = ""  # one of our own metrics; samples with other labels, such as reasons, are added up; empty: devices
    source: str = ""
    polls: tuple[str, ...] = ()
    kind: Kind = "gauge"
    near: str = ""
    by: tuple[Label, ...] = ()  # the labels by which devices are counted


@dataclass(frozen=True, slots=True)
class Missing:
    """Names of another exporter without a row, and why. `*` stands for any characters, `{a,b}` for each of these words."""

    names: str  # separated by a comma and a blank
    why: str


@dataclass(frozen=True, slots=True)
class Peer:
    """Another exporter with its table."""

    name: str
    source: str  # the repository on GitHub
    vendors: tuple[str, ...]
    port: int
    prefix: str
    labels: tuple[Label, ...]
    rows: tuple[Row, ...]
    missing: tuple[Missing, ...]
    node_rows: tuple[NodeRow, ...] = ()
    node_label: str = ""  # the label of `node_rows` with the node's name; empty: they have no labels
    has_partitions: bool = False
    hostname_labels: tuple[str, ...] = ()  # spellings of the label with the node's name, the usual one first
    version: str = ""  # the release with these names, if releases differ
    note: str = ""  # how certain the names are
