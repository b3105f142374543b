"""The parts of another exporter's table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

from telemetry_exporters.prometheus.labels import Labels
from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.model import Kind, MergedDevice


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """Data about the node for the labels of other exporters."""

    hostname: str
    kubernetes_name: str = ""
    # If true, each card has labels for its pod, which are empty if there is no pod.
    reports_owners: bool = False
    address: str = ""


@dataclass(frozen=True, slots=True)
class DeviceContext:
    """A device with its card, its node and its owner's labels, which are empty unless there is exactly one owner."""

    device: MergedDevice
    card: MergedDevice
    node: NodeIdentity
    owner: Mapping[str, str]
    is_divided: bool = False  # whether the device is a card with partitions

    def fact(self, name: str) -> str:
        """Return a fact of the device, otherwise of its card, or an empty string if neither has the fact."""
        return dict(self.device.facts).get(name) or dict(self.card.facts).get(name, "")


# Returns the value that another exporter's label has for a device, or None to omit the label.
LabelFunction = Callable[[DeviceContext], str | None]


@dataclass(frozen=True, slots=True)
class ReportedDevice:
    """A device, and the positions of its numbers in `Columns.values`."""

    context: DeviceContext
    positions_by_metric: Mapping[str, Mapping[str, int]]
    incomplete_metrics: frozenset[str]  # metrics with a supported reading that is currently absent
    number_at: Callable[[int], float]  # returns the number at a position, and makes the page's series depend on it

    def positions(self, metric: str) -> Mapping[str, int]:
        """Map the metric's label values to the positions of its numbers."""
        return self.positions_by_metric.get(metric, {})


_EVENTS = "event_last_timestamp_seconds"
_EVENT_WATCH = "event_watch"
# The label value of a total, such as the errors of all locations.
_TOTAL_LABEL_VALUE = "all"


@dataclass(frozen=True, slots=True)
class Sample:
    """A number and its labels. The number is a constant, or the sum of the values at `positions`."""

    positions: tuple[int, ...] = ()
    constant: float = 0.0
    labels: Labels = ()
    minus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FirstOf:
    """A formula that uses the first reading that the device has."""

    readings: tuple[str, ...]

    def samples(self, device: ReportedDevice) -> Iterable[Sample]:
        """Return one sample, or none if the device has none of the readings."""
        for metric, value in map(split_reading, self.readings):
            position = device.positions(metric).get(value)
            if position is not None:
                return (Sample((position,)),)
        return ()


@dataclass(frozen=True, slots=True)
class _MetricFormula:
    metric: str

    @property
    def readings(self) -> tuple[str, ...]:
        """Return the readings that the formula needs."""
        return (self.metric,)


@dataclass(frozen=True, slots=True)
class Total(_MetricFormula):
    """The total that the device reports, or the sum over all label values."""

    def samples(self, device: ReportedDevice) -> Iterable[Sample]:
        """Return one sample, or none if the total is unknown."""
        positions = device.positions(self.metric)
        if _TOTAL_LABEL_VALUE in positions:
            return (Sample((positions[_TOTAL_LABEL_VALUE],)),)
        is_complete = self.metric not in device.incomplete_metrics
        return (Sample(tuple(positions.values())),) if positions and is_complete else ()


@dataclass(frozen=True, slots=True)
class Difference:
    """The first reading minus the second, as the other exporter computes it."""

    readings: tuple[str, str]

    def samples(self, device: ReportedDevice) -> Iterable[Sample]:
        """Return one sample, or none if a reading is absent."""
        total, part = (device.positions(metric).get(value) for metric, value in map(split_reading, self.readings))
        return () if total is None or part is None else (Sample((total,), minus=(part,)),)


@dataclass(frozen=True, slots=True)
class PerLabelValue(_MetricFormula):
    """One sample per label value. `renamed_value` returns the new label value, or None or "" to omit the sample."""

    label: str
    renamed_value: Callable[[str], str | None] = str

    def samples(self, device: ReportedDevice) -> Iterable[Sample]:
        """Return one sample per label value that has a new name."""
        positions = device.positions(self.metric)
        names = ((self.renamed_value(value), position) for value, position in positions.items())
        return [Sample((position,), labels=((self.label, name),)) for name, position in names if name]


@dataclass(frozen=True, slots=True)
class PerIndex(_MetricFormula):
    """One sample per label value, with numbers from 0 instead of the label values."""

    label: str

    def samples(self, device: ReportedDevice) -> Iterable[Sample]:
        """Return the numbered samples, or only the total if the device reports nothing else."""
        positions = device.positions(self.metric)
        without_total = [position for value, position in positions.items() if value != _TOTAL_LABEL_VALUE]
        if without_total:
            indexed = enumerate(without_total)
            return [Sample((position,), labels=((self.label, str(index)),)) for index, position in indexed]
        return [Sample((position,), labels=((self.label, value),)) for value, position in positions.items()]


@dataclass(frozen=True, slots=True)
class StateNumber(_MetricFormula):
    """The number that `numbers` assigns to the device's current state."""

    numbers: Mapping[str, float]

    def samples(self, device: ReportedDevice) -> Iterable[Sample]:
        """Return one sample, or none if the active state has no number."""
        states = [state for state, position in device.positions(self.metric).items() if device.number_at(position)]
        return [Sample(constant=self.numbers[state]) for state in states[:1] if state in self.numbers]


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant, for metrics whose information is in their labels."""

    number: float = 1.0
    readings: tuple[str, ...] = ("info",)

    def samples(self, device: ReportedDevice) -> Iterable[Sample]:
        """Return one sample, or none if the device is not up."""
        return (Sample(constant=self.number),) if is_up(device) else ()


@dataclass(frozen=True, slots=True)
class FactNumber:
    """The number in the text of a fact, or the number that `numbers` assigns to the text."""

    text_of: LabelFunction
    numbers: Mapping[str, float] = field(default_factory=dict)
    readings: tuple[str, ...] = ("info",)

    def samples(self, device: ReportedDevice) -> Iterable[Sample]:
        """Return one sample, or none if the device is not up or the text has no number."""
        text = (self.text_of(device.context) or "") if is_up(device) else ""
        if self.numbers:
            return [Sample(constant=self.numbers[text])] if text in self.numbers else []
        return [Sample(constant=float(text))] if is_whole_number(text.replace(".", "", 1)) else []


@dataclass(frozen=True, slots=True)
class NewestEventCode:
    """The number in the newest event's code, or 0 if no event has occurred."""

    prefix: str
    labels: tuple[str, ...] = ()  # the labels for the code and the message
    values_without_event: tuple[str, ...] = ()  # the label values if no event has occurred
    readings: tuple[str, ...] = (_EVENTS, _EVENT_WATCH)

    def samples(self, device: ReportedDevice) -> Iterable[Sample]:
        """Return one sample, or none if there is no event and events are not watched."""
        positions = {code.removeprefix(self.prefix): position for code, position in device.positions(_EVENTS).items()}
        times = {code: device.number_at(position) for code, position in positions.items() if is_whole_number(code)}
        if times:
            newest = max(times, key=lambda code: times[code])
            texts = (newest, *("" for _ in self.values_without_event[1:]))
            return [Sample(constant=float(newest), labels=tuple(zip(self.labels, texts, strict=True)))]
        without_event = Sample(labels=tuple(zip(self.labels, self.values_without_event, strict=True)))
        return [without_event for position in device.positions(_EVENT_WATCH).values() if device.number_at(position)]


@dataclass(frozen=True, slots=True)
class Converted:
    """The converted number of another formula. The page's layout is rebuilt whenever this number changes."""

    formula: FirstOf | Total
    convert: Callable[[float], float | None]

    @property
    def readings(self) -> tuple[str, ...]:
        """Return the readings of the other formula."""
        return self.formula.readings

    def samples(self, device: ReportedDevice) -> Iterable[Sample]:
        """Return one sample, or none if the number cannot be converted."""
        numbers = [sum(map(device.number_at, sample.positions)) for sample in self.formula.samples(device)]
        return [Sample(constant=number) for number in map(self.convert, numbers) if number is not None]


Formula = (
    FirstOf | Total | Difference | PerLabelValue | PerIndex | StateNumber | Constant | FactNumber | NewestEventCode | Converted
)  # fmt: skip


def first_of(*readings: str) -> FirstOf:
    """Return a formula that uses the first reading that the device has."""
    return FirstOf(readings)


def is_up(device: ReportedDevice) -> bool:
    """Return whether the device is up."""
    return any(device.number_at(position) for position in device.positions("up").values())


@lru_cache(maxsize=512)
def split_reading(reading: str) -> tuple[str, str]:
    """Split a reading such as `metric{value}` into metric and label value."""
    metric, _, value = reading.partition("{")
    return metric, value.removesuffix("}")


def is_whole_number(text: str) -> bool:
    """Return whether the text is a whole number of at most 15 digits."""
    return text.isascii() and text.isdecimal() and len(text) < 16


# The numbers that several exporters use for health states.
HEALTH_NUMBERS: Mapping[str, float] = MappingProxyType({"ok": 1.0, "warning": 0.0, "alarm": 0.0, "critical": 0.0})
GIGATRANSFERS_BY_GENERATION: Mapping[float, float] = MappingProxyType(
    {1.0: 2.5, 2.0: 5.0, 3.0: 8.0, 4.0: 16.0, 5.0: 32.0, 6.0: 64.0}
)
# Factors that convert base units to other exporters' units.
MEBI = 1 / (1 << 20)
KIBI = 1 / (1 << 10)
PERCENT = 100.0
MEGA = 1e-6
MILLI = 1e3
MICRO = 1e6
NANO = 1e9
# Converted numbers are rounded, because 100 × 0.29 is 28.999999999999996.
USUAL_DECIMALS = 6
# The devices for which a row has samples: "" means all, "leaves" means partitions and undivided cards.
Scope = Literal["", "cards", "partitions", "undivided", "leaves"]


@dataclass(frozen=True, slots=True)
class Label:
    """A label of another exporter, and a function that returns its value for a device."""

    name: str
    value_of: LabelFunction


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: another exporter's metric family, and our formula for its samples."""

    name: str  # without the exporter's prefix
    help: str
    formula: Formula
    factor: float = 1.0
    kind: Kind = "gauge"
    labels: Labels = ()
    device_labels: tuple[Label, ...] = ()
    deviation: str = ""  # how the numbers differ from those of the other exporter
    scope: Scope = ""
    decimals: int = USUAL_DECIMALS  # the number of decimals that the other exporter prints


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A row of the table for a metric family about the node."""

    name: str
    help: str
    metric: str = ""  # a daemon metric; if empty, the row counts devices
    source: str = ""
    polls: tuple[str, ...] = ()
    kind: Kind = "gauge"
    deviation: str = ""
    count_by: tuple[Label, ...] = ()  # if given, devices are counted by the values of these labels


@dataclass(frozen=True, slots=True)
class UnservedNames:
    """Glob patterns of metric names that are not served, and the reason."""

    names: str  # separated by ", "
    why: str


@dataclass(frozen=True, slots=True)
class ExporterTable:
    """Another exporter: its identity, its labels, and a row for each of its metrics."""

    name: str
    source: str  # the repository on GitHub
    vendors: tuple[str, ...]
    port: int
    prefix: str
    labels: tuple[Label, ...]
    rows: tuple[Row, ...]
    missing: tuple[UnservedNames, ...]
    node_rows: tuple[NodeRow, ...] = ()
    node_label: str = ""  # the label of `node_rows` that contains the node's name, if any
    has_partitions: bool = False
    hostname_labels: tuple[str, ...] = ()  # labels for the node's name, the usual label first
    version: str = ""  # the exporter's release, if releases differ in their metric names
    note: str = ""  # how reliable the names are
