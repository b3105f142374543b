"""What a table of another exporter consists of: rows, labels, and the ways from a device's readings to the numbers of a row."""

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
    """The node as other exporters name it: its host name, Kubernetes' name for it if known, and its IP address.

    `tells_owners` is whether attribution is on. The labels of pods are then present on every card, and empty on a free one.
    """

    hostname: str
    kubernetes_name: str = ""
    tells_owners: bool = False
    address: str = ""


@dataclass(frozen=True, slots=True)
class Who:
    """A device, the whole card that it is or belongs to, and the labels of its one owner.

    `is_divided` is whether the device is a card with partitions.
    """

    device: MergedDevice
    card: MergedDevice
    node: Node
    owner: Mapping[str, str]
    is_divided: bool = False

    def fact(self, name: str) -> str:
        """One of the device's facts, else the whole card's; empty where neither has it."""
        return dict(self.device.facts).get(name) or dict(self.card.facts).get(name, "")


# What a label of another exporter says of a device; None where there is no such label.
Fact = Callable[[Who], str | None]


@dataclass(frozen=True, slots=True)
class Reported:
    """A device with the places of its numbers, by metric and word; what it does not tell has no place.

    `gaps` are the metrics of which some word has no number now, though the device supports it. Callers that decide by a number use
    it through `decisive`: another number there may mean other lines.
    """

    who: Who
    places: Mapping[str, Mapping[str, int]]
    gaps: frozenset[str]
    decisive: Callable[[int], float]

    def words(self, metric: str) -> Mapping[str, int]:
        """The words of the metric's label that have a number, in order; the word is empty where the metric has no label."""
        return self.places.get(metric, {})


_EVENTS = "event_last_timestamp_seconds"
_EVENT_WATCH = "event_watch"
# The word of all places of a metric together.
_ALL = "all"


@dataclass(frozen=True, slots=True)
class Cell:
    """A number of a page: the sum of the values at `places` less those at `minus`, or a constant; and its own labels."""

    places: tuple[int, ...] = ()
    constant: float = 0.0
    labels: Labels = ()
    minus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class One:
    """The first of these readings that the device tells."""

    readings: tuple[str, ...]

    def cells(self, reported: Reported) -> Iterable[Cell]:
        """One number, or none."""
        for metric, word in map(split, self.readings):
            place = reported.words(metric).get(word)
            if place is not None:
                return (Cell((place,)),)
        return ()


@dataclass(frozen=True, slots=True)
class Total:
    """The reading of all places together; where there is none, the sum over its places, if none of them is missing."""

    readings: tuple[str, ...]

    def cells(self, reported: Reported) -> Iterable[Cell]:
        """One number, or none."""
        (metric,) = self.readings
        words = reported.words(metric)
        if _ALL in words:
            return (Cell((words[_ALL],)),)
        return (Cell(tuple(words.values())),) if words and metric not in reported.gaps else ()


@dataclass(frozen=True, slots=True)
class Rest:
    """The first reading less the second, as the other exporter computes it."""

    readings: tuple[str, str]

    def cells(self, reported: Reported) -> Iterable[Cell]:
        """Return one number, or none if a reading is absent."""
        whole, part = (reported.words(metric).get(word) for metric, word in map(split, self.readings))
        return () if whole is None or part is None else (Cell((whole,), minus=(part,)),)


def _same(word: str) -> str:
    return word


@dataclass(frozen=True, slots=True)
class Each:
    """A number for each word of the metric's label, under the other exporter's label; what it has no name for is left out."""

    readings: tuple[str, ...]
    label: str
    named: Callable[[str], str] = _same

    def cells(self, reported: Reported) -> Iterable[Cell]:
        """As many numbers as words."""
        (metric,) = self.readings
        named = ((self.named(word), place) for word, place in reported.words(metric).items())
        return [Cell((place,), labels=((self.label, name),)) for name, place in named if name]


@dataclass(frozen=True, slots=True)
class Numbered:
    """A number for each word of the metric's label, counted from 0 under the other exporter's label."""

    readings: tuple[str, ...]
    label: str

    def cells(self, reported: Reported) -> Iterable[Cell]:
        """Return as many numbers as words. The sum of all places is shown as such if it is the only one."""
        (metric,) = self.readings
        words = reported.words(metric)
        places = [place for word, place in words.items() if word != _ALL]
        if places:
            return [Cell((place,), labels=((self.label, str(number)),)) for number, place in enumerate(places)]
        return [Cell((place,), labels=((self.label, word),)) for word, place in words.items()]


@dataclass(frozen=True, slots=True)
class NumberOf:
    """The number that stands for the word which is 1."""

    readings: tuple[str, ...]
    numbers: Mapping[str, float]

    def cells(self, reported: Reported) -> Iterable[Cell]:
        """One number; none where another word is 1, or none."""
        (metric,) = self.readings
        active = [word for word, place in reported.words(metric).items() if reported.decisive(place)]
        return [Cell(constant=self.numbers[word]) for word in active[:1] if word in self.numbers]


@dataclass(frozen=True, slots=True)
class Always:
    """The same number for each device: what matters are the labels."""

    number: float = 1.0
    readings: tuple[str, ...] = ("info",)

    def cells(self, reported: Reported) -> Iterable[Cell]:
        """One number; none for a device that is lost."""
        return (Cell(constant=self.number),) if is_here(reported) else ()


@dataclass(frozen=True, slots=True)
class OfFact:
    """The number that a fact stands for; without a table, the number that it is."""

    fact: Fact
    numbers: Mapping[str, float] = field(default_factory=dict)
    readings: tuple[str, ...] = ("info",)

    def cells(self, reported: Reported) -> Iterable[Cell]:
        """One number, or none."""
        text = (self.fact(reported.who) or "") if is_here(reported) else ""
        if self.numbers:
            return [Cell(constant=self.numbers[text])] if text in self.numbers else []
        return [Cell(constant=float(text))] if is_number(text.replace(".", "", 1)) else []


@dataclass(frozen=True, slots=True)
class NewestCode:
    """The number in the newest event's code; 0 only while events are watched for and none has come.

    `labels` are the other exporter's labels for the code and its message. The message of 0 is the second of `none`.
    """

    prefix: str
    labels: tuple[str, ...] = ()
    none: tuple[str, ...] = ()
    readings: tuple[str, ...] = (_EVENTS, _EVENT_WATCH)

    def cells(self, reported: Reported) -> Iterable[Cell]:
        """One number; none if events are not watched and none occurred."""
        times = {word.removeprefix(self.prefix): place for word, place in reported.words(_EVENTS).items()}
        codes = {code: reported.decisive(place) for code, place in times.items() if is_number(code)}
        if codes:
            newest = max(codes, key=lambda code: codes[code])
            texts = (newest, *("" for _ in self.none[1:]))
            return [Cell(constant=float(newest), labels=tuple(zip(self.labels, texts, strict=True)))]
        calm = Cell(labels=tuple(zip(self.labels, self.none, strict=True)))
        return [calm for place in reported.words(_EVENT_WATCH).values() if reported.decisive(place)]


@dataclass(frozen=True, slots=True)
class Turned:
    """What another way gives, as another number; for values that change seldom."""

    way: One | Total
    turn: Callable[[float], float | None]

    @property
    def readings(self) -> tuple[str, ...]:
        """The readings of the other way."""
        return self.way.readings

    def cells(self, reported: Reported) -> Iterable[Cell]:
        """One number; none where there is no other number for it."""
        given = [sum(map(reported.decisive, cell.places)) for cell in self.way.cells(reported)]
        return [Cell(constant=number) for number in map(self.turn, given) if number is not None]


Way = One | Total | Rest | Each | Numbered | NumberOf | Always | OfFact | NewestCode | Turned


def one(*readings: str) -> One:
    """The first of these readings that the device tells."""
    return One(readings)


def total(metric: str) -> Total:
    """All places of a metric together."""
    return Total((metric,))


def number_of(metric: str, numbers: Mapping[str, float]) -> NumberOf:
    """The number that stands for the state which a device is in."""
    return NumberOf((metric,), numbers)


def is_here(reported: Reported) -> bool:
    """Whether the device is listed now."""
    return any(reported.decisive(place) for place in reported.words("up").values())


@lru_cache(maxsize=512)
def split(reading: str) -> tuple[str, str]:
    """Metric and word of `metric{word}`; the word is empty where there is none."""
    metric, _, word = reading.partition("{")
    return metric, word.removesuffix("}")


def is_number(text: str) -> bool:
    """Whether the text is a whole number in digits, of a length that is no joke."""
    return text.isascii() and text.isdecimal() and len(text) < 16


# What several exporters print for a state of health, and GT/s of a PCIe generation.
HEALTHY: Mapping[str, float] = MappingProxyType({"ok": 1.0, "warning": 0.0, "alarm": 0.0, "critical": 0.0})
GIGATRANSFERS: Mapping[float, float] = MappingProxyType({1.0: 2.5, 2.0: 5.0, 3.0: 8.0, 4.0: 16.0, 5.0: 32.0, 6.0: 64.0})
MEBI = 1 / (1 << 20)
KIBI = 1 / (1 << 10)
PERCENT = 100.0
MEGA = 1e-6
MILLI = 1e3
MICRO = 1e6
NANO = 1e9


# A factor such as 100 makes 28.999999999999996 of 0.29.
DIGITS = 6
Only = Literal["", "cards", "partitions", "undivided", "leaves"]


@dataclass(frozen=True, slots=True)
class Label:
    """A label of another exporter, and what it tells of a device."""

    name: str
    fact: Fact


@dataclass(frozen=True, slots=True)
class Row:
    """A family of another exporter: its name without the prefix, the way to its numbers, and what these are multiplied by.

    `near` says in what it differs from theirs; it is empty where the two are the same. Several rows may have one name and
    different labels. `only` restricts the row to whole cards, to partitions, to cards without partitions (`undivided`), or
    to partitions and cards without any (`leaves`). `digits` are the decimals that the other exporter prints.
    """

    name: str
    help: str
    way: Way
    times: float = 1.0
    kind: Kind = "gauge"
    labels: Labels = ()
    facts: tuple[Label, ...] = ()
    near: str = ""
    only: Only = ""
    digits: int = DIGITS


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A family about the other exporter itself: one of our own metrics, of a source and one of its polls, or the number of devices.

    Samples with other labels, such as the reasons of failures, are added up. Devices are counted by the labels `by`.
    """

    name: str
    help: str
    metric: str = ""
    source: str = ""
    polls: tuple[str, ...] = ()
    kind: Kind = "gauge"
    near: str = ""
    by: tuple[Label, ...] = ()


@dataclass(frozen=True, slots=True)
class Missing:
    """Names of another exporter that no row gives, and why.

    The names are complete and separated by a comma and a blank. `*` stands for any characters, `{a,b}` for each of these words.
    """

    names: str
    why: str


@dataclass(frozen=True, slots=True)
class Peer:
    """Another exporter: where it is from, whose cards it tells, its port, its labels, and its rows.

    `hostname_labels` are the spellings of the label with the node's name, the usual one first; `node_label` is that of the rows
    about the exporter itself, empty where these have no labels. `version` is the release whose names these are, where releases
    differ; `note` says how certain they are.
    """

    name: str
    source: str
    vendors: tuple[str, ...]
    port: int
    prefix: str
    labels: tuple[Label, ...]
    rows: tuple[Row, ...]
    missing: tuple[Missing, ...]
    node_rows: tuple[NodeRow, ...] = ()
    node_label: str = ""
    has_partitions: bool = False
    hostname_labels: tuple[str, ...] = ()
    version: str = ""
    note: str = ""
