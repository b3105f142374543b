"""Reports by columns: the names of their readings, which seldom change, apart from the values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from operator import attrgetter

from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.metrics import BY_KEY, Limits, limits, within
from telemetry_parsers.model import Absent, Device, Metric, Reading, SourceReport, Value
from telemetry_parsers.readings import Origin, ReadingKey

_NO_METRICS: Mapping[str, Metric] = {}
RATIO: ReadingKey = ("memory_used_ratio", "")
RATIO_OF: tuple[ReadingKey, ReadingKey] = (("memory_used_bytes", ""), ("memory_total_bytes", ""))
# Presence, identity and peaks are determined by merge itself, never by a reading.
DECIDED_ELSEWHERE = frozenset({"info", "up", "unread", "peak_flops", "flops_per_cycle", "peak_memory_bytes_per_second"})
# Of several absences, the most informative is shown.
INFORMATION_RANK = {
    Absent.NOT_UNDERSTOOD: 0,
    Absent.IMPLAUSIBLE: 1,
    Absent.NOT_PERMITTED: 2,
    Absent.NOT_SUPPORTED: 3,
    Absent.NOT_REPORTED: 4,
}
NUMBER = -1

# The devices, the metrics and the labels of a report's readings: three columns, which are compared at every poll.
Names = tuple[tuple[int | None, ...], tuple[str, ...], tuple[str, ...]]
_DEVICE_OF, _METRIC_OF, _LABEL_OF = attrgetter("device"), attrgetter("metric"), attrgetter("label")
_VALUE_OF = attrgetter("value")


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """The readings that a report offers, and the limits of each. Memory ratios follow the readings."""

    names: Names
    extra: Mapping[str, Metric]
    positions: tuple[int, ...]  # of the offered readings among all readings of the report, without unknown metrics
    keys: tuple[ReadingKey, ...]
    devices: tuple[int | None, ...]
    limits: tuple[Limits, ...]
    counters: frozenset[int]
    ratios: Mapping[tuple[int, int], int]  # the position of the ratio by those of used and total

    def values(self, readings: Sequence[Reading]) -> tuple[Value | None, ...]:
        """Return the value of each offered reading, then the memory ratios: a number in its range, or the absence."""
        values = list(map(_VALUE_OF, readings))
        if len(self.positions) < len(values):
            values = [values[position] for position in self.positions]
        checked: list[Value | None] = [
            value or 0.0  # -0.0 becomes 0.0
            if value.__class__ is float and bounds.low <= value <= bounds.high and value not in bounds.blanks
            else within(bounds, value)
            for value, bounds in zip(values, self.limits, strict=True)
        ]
        checked += [_ratio(checked[used], checked[total]) for used, total in self.ratios]
        return tuple(checked)


def columns(names: Names, extra: Mapping[str, Metric]) -> Columns:
    """Return the columns of a report whose readings have these names; `extra` are metrics that plugins declare."""
    metrics = {key: BY_KEY.get(key) or extra.get(key) for key in names[1] if key not in DECIDED_ELSEWHERE}
    limits_of = {key: limits(metric) for key, metric in metrics.items() if metric is not None}
    counted = {key for key, metric in metrics.items() if metric is not None and metric.kind == "counter"}
    positions = tuple(position for position, key in enumerate(names[1]) if key in limits_of)
    offered = [name for name in zip(*names, strict=True) if name[1] in limits_of]
    # If a reading occurs twice, the first counts.
    position_of = {name: position for position, name in reversed(list(enumerate(offered)))}
    # Most devices of a report have the same readings, so that equal keys are shared.
    keys = {name[1:]: name[1:] for name in offered}
    used, total = ({name[0]: position for name, position in position_of.items() if name[1:] == key} for key in RATIO_OF)
    ratios = {device: (used[device], total[device]) for device in used if device in total and device is not None}
    return Columns(
        names=names,
        extra=extra,
        positions=positions,
        keys=(*(keys[name[1:]] for name in offered), *(RATIO for _ in ratios)),
        devices=(*(device for device, _, _ in offered), *ratios),
        limits=tuple(limits_of[key] for _, key, _ in offered),
        counters=frozenset(position for position, (_, key, _) in enumerate(offered) if key in counted),
        ratios={pair: len(offered) + number for number, pair in enumerate(ratios.values())},
    )


def _ratio(used: Value | None, total: Value | None) -> Value | None:
    """Return used / total; `implausible` if more is used than there is, None if either number is missing."""
    if used is None or total is None or isinstance(used, Absent) or isinstance(total, Absent) or total <= 0:
        return None
    return used / total if used <= total else Absent.IMPLAUSIBLE


@dataclass(frozen=True, slots=True, eq=False)
class ReportShape:
    """A report without values and times: absences, readings by device, and their ranks. Equal reports share this."""

    columns: Columns
    no_numbers: Mapping[int, Absent | None]
    devices: tuple[Device, ...]
    traits: tuple[object, ...]
    by_device: Mapping[int | None, tuple[int, ...]]
    ranks: tuple[int, ...]

    @classmethod
    def of(
        cls,
        columns: Columns,
        no_numbers: Mapping[int, Absent | None],
        devices: tuple[Device, ...],
        traits: tuple[object, ...],
    ) -> ReportShape:
        """Return the shape, with the positions of each device's readings and how informative each reading is."""
        by_device: dict[int | None, list[int]] = {}
        for position, device in enumerate(columns.devices[: len(columns.limits)]):
            by_device.setdefault(device, []).append(position)
        ranks = [NUMBER] * len(columns.keys)
        for position, absence in no_numbers.items():
            ranks[position] = NUMBER if absence is None else INFORMATION_RANK[absence]
        positions = {device: tuple(positions) for device, positions in by_device.items()}
        return cls(columns, no_numbers, devices, traits, positions, tuple(ranks))


@dataclass(frozen=True, slots=True, eq=False)
class Offered:
    """A report with its readings checked against the catalogue, made once and used in many merges."""

    report: SourceReport
    shape: ReportShape
    values: tuple[Value | None, ...]

    @property
    def key(self) -> tuple[str, str]:
        """Return the source and the poll."""
        return self.report.source, self.report.poll


def offered(report: SourceReport, extra: Mapping[str, Metric] = _NO_METRICS, before: Offered | None = None) -> Offered:
    """Return the checked report, with the shape of the poll's previous report if equal; `extra` are metrics of plugins."""
    kept = before.shape if before is not None else None
    readings = report.report.readings
    names = (tuple(map(_DEVICE_OF, readings)), tuple(map(_METRIC_OF, readings)), tuple(map(_LABEL_OF, readings)))
    has_same_names = kept is not None and kept.columns.extra is extra and kept.columns.names == names
    made = kept.columns if kept is not None and has_same_names else columns(names, extra)
    values = made.values(readings)
    # A checked value that is not a float is absent.
    no_numbers = {position: value for position, value in enumerate(values) if not isinstance(value, float)}
    rest = (made, no_numbers, report.report.devices, _traits(report))
    is_same = kept is not None and rest == (kept.columns, kept.no_numbers, kept.devices, kept.traits)
    return Offered(report, kept if kept is not None and is_same else ReportShape.of(*rest), values)


def _traits(report: SourceReport) -> tuple[object, ...]:
    whole = report.report
    return report.vendor, report.gives, report.lists_devices, whole.form, whole.index_space, whole.is_cut


NodeShape = tuple[
    tuple[tuple[str, str], ...], tuple[ReportShape, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]
]


def preference(report: SourceReport) -> tuple[float, float]:
    """Return the rank of a report within its source. The lowest wins: the poll with the shortest interval, then the newest.

    The age alone would change with every poll, and with the age all that merge can reuse.
    """
    return report.interval, -report.taken


def newest_lists(reports: Iterable[SourceReport]) -> dict[str, SourceReport]:
    """Return the newest device list of each source that has any."""
    lists = sorted((report for report in reports if report.lists_devices), key=lambda report: report.taken)
    return {report.source: report for report in lists}


@dataclass(frozen=True, slots=True)
class Fresh:
    """The reports by number: their ranks by source and preference (`turns`), value offsets, and the host's reports."""

    offered: tuple[Offered, ...]
    number_of: Mapping[tuple[str, str], int]
    turns: tuple[int, ...]
    offsets: tuple[int, ...]
    host: tuple[int, ...]

    @classmethod
    def of(cls, reports: Iterable[Offered], now: float) -> Fresh:
        """Return the reports that have not expired."""
        offered = tuple(sorted((offer for offer in reports if offer.report.expires > now), key=_name))
        preferred = sorted(range(len(offered)), key=lambda number: preference(offered[number].report))
        by_source = sorted(preferred, key=lambda number: offered[number].report.source)
        turn_of = {number: turn for turn, number in enumerate(by_source)}
        host = tuple(number for number in reversed(preferred) if None in offered[number].shape.by_device)
        return cls(
            offered,
            {_name(offer): number for number, offer in enumerate(offered)},
            tuple(turn_of[number] for number in range(len(offered))),
            tuple(accumulate((len(offer.values) for offer in offered), initial=0)),
            host,
        )

    @property
    def reports(self) -> tuple[SourceReport, ...]:
        """Return the reports without their shapes."""
        return tuple(offer.report for offer in self.offered)

    def shape(self) -> NodeShape:
        """Return the reports' properties except values and times, with the order of the times."""
        lists = tuple(self.number_of[report.source, report.poll] for report in newest_lists(self.reports).values())
        return (
            tuple(self.number_of),
            tuple(offer.shape for offer in self.offered),
            self.turns,
            self.host,
            tuple(sorted(lists)),
        )

    def row(self) -> list[Value | None]:
        """Return all values in one row, followed by the absence of metrics that no source reported."""
        row: list[Value | None] = []
        for offer in self.offered:
            row += offer.values
        row.append(Absent.NOT_REPORTED)
        return row

    def origins(self) -> tuple[Origin, ...]:
        """Return source and time of each report's readings."""
        return tuple(Origin(offer.report.source, offer.report.taken, offer.report.interval) for offer in self.offered)


def _name(offered: Offered) -> tuple[str, str]:
    return offered.report.source, offered.report.poll
