"""Reports by columns: what their readings are called, which changes seldom, apart from their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter

from telemetry_parsers.metrics import BY_KEY, Limits, limits, within
from telemetry_parsers.model import Absent, Device, Metric, Reading, SourceReport, Value
from telemetry_parsers.readings import Origin, ReadingKey

_NO_METRICS: Mapping[str, Metric] = {}
RATIO: ReadingKey = ("memory_used_ratio", "")
RATIO_OF: tuple[ReadingKey, ReadingKey] = (("memory_used_bytes", ""), ("memory_total_bytes", ""))
# Presence, identity and peaks are decided by merge itself, never by a reading.
DECIDED_ELSEWHERE = frozenset({"info", "up", "unread", "peak_flops", "flops_per_cycle", "peak_memory_bytes_per_second"})
# Between absences the most telling one is shown.
TELLING = {
    Absent.NOT_UNDERSTOOD: 0,
    Absent.IMPLAUSIBLE: 1,
    Absent.NOT_PERMITTED: 2,
    Absent.NOT_SUPPORTED: 3,
    Absent.NOT_REPORTED: 4,
}
NUMBER = -1

# The devices, the metrics and the labels of a report's readings: three rows, which are made and compared at every poll.
Names = tuple[tuple[int | None, ...], tuple[str, ...], tuple[str, ...]]
_DEVICE_OF, _METRIC_OF, _LABEL_OF = attrgetter("device"), attrgetter("metric"), attrgetter("label")
_VALUE_OF = attrgetter("value")


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Which readings a report offers, and the limits of each.

    `places` are those of the offered readings among all of the report's; the rest are of no known metric. Behind the readings come
    the memory ratios: `ratios` has the places of used and total that each is derived from, and its own.
    """

    names: Names
    extra: Mapping[str, Metric]
    places: tuple[int, ...]
    keys: tuple[ReadingKey, ...]
    devices: tuple[int | None, ...]
    limits: tuple[Limits, ...]
    counters: frozenset[int]
    ratios: Mapping[tuple[int, int], int]

    def values(self, readings: Sequence[Reading]) -> tuple[Value | None, ...]:
        """The value of each reading that is offered: a number in its range, or why there is none; then the memory ratios."""
        given = list(map(_VALUE_OF, readings))
        if len(self.places) < len(given):
            given = [given[place] for place in self.places]
        checked: list[Value | None] = [
            value or 0.0  # -0.0 becomes 0.0
            if value.__class__ is float and bounds.low <= value <= bounds.high and value not in bounds.blanks
            else within(bounds, value)
            for value, bounds in zip(given, self.limits, strict=True)
        ]
        checked += [_ratio(checked[used], checked[total]) for used, total in self.ratios]
        return tuple(checked)


def columns(names: Names, extra: Mapping[str, Metric]) -> Columns:
    """The columns of a report whose readings have these names; `extra` are metrics that plugins declare."""
    metrics = {key: BY_KEY.get(key) or extra.get(key) for key in names[1] if key not in DECIDED_ELSEWHERE}
    limits_of = {key: limits(metric) for key, metric in metrics.items() if metric is not None}
    counted = {key for key, metric in metrics.items() if metric is not None and metric.kind == "counter"}
    places = tuple(place for place, key in enumerate(names[1]) if key in limits_of)
    known = [name for name in zip(*names, strict=True) if name[1] in limits_of]
    # Of what is given twice the first counts.
    place_of = {name: place for place, name in reversed(list(enumerate(known)))}
    # The devices of a report have mostly the same readings: each key is kept once.
    keys = {name[1:]: name[1:] for name in known}
    used, total = ({name[0]: place for name, place in place_of.items() if name[1:] == key} for key in RATIO_OF)
    ratios = {device: (used[device], total[device]) for device in used if device in total and device is not None}
    return Columns(
        names=names,
        extra=extra,
        places=places,
        keys=(*(keys[name[1:]] for name in known), *(RATIO for _ in ratios)),
        devices=(*(device for device, _, _ in known), *ratios),
        limits=tuple(limits_of[key] for _, key, _ in known),
        counters=frozenset(place for place, (_, key, _) in enumerate(known) if key in counted),
        ratios={pair: len(known) + number for number, pair in enumerate(ratios.values())},
    )


def _ratio(used: Value | None, total: Value | None) -> Value | None:
    """The used part of the memory; `implausible` if more is used than there is, None if one of the numbers is missing."""
    if used is None or total is None or isinstance(used, Absent) or isinstance(total, Absent) or total <= 0:
        return None
    return used / total if used <= total else Absent.IMPLAUSIBLE


@dataclass(frozen=True, slots=True, eq=False)
class ReportShape:
    """All of a report but its numbers and its times. It is compared by identity: the same object comes again while only these change.

    `no_numbers` are the values that are none, by place; None where a memory ratio cannot be derived. `by_device` has the places
    of each device's readings, `tellings` how telling each reading is.
    """

    columns: Columns
    no_numbers: Mapping[int, Absent | None]
    devices: tuple[Device, ...]
    traits: tuple[object, ...]
    by_device: Mapping[int | None, tuple[int, ...]]
    tellings: tuple[int, ...]

    @classmethod
    def of(
        cls,
        columns: Columns,
        no_numbers: Mapping[int, Absent | None],
        devices: tuple[Device, ...],
        traits: tuple[object, ...],
    ) -> ReportShape:
        """The shape, with the places of each device's readings and how telling each reading is."""
        by_device: dict[int | None, list[int]] = {}
        for place, device in enumerate(columns.devices[: len(columns.limits)]):
            by_device.setdefault(device, []).append(place)
        tellings = [NUMBER] * len(columns.keys)
        for place, absence in no_numbers.items():
            tellings[place] = NUMBER if absence is None else TELLING[absence]
        places = {device: tuple(places) for device, places in by_device.items()}
        return cls(columns, no_numbers, devices, traits, places, tuple(tellings))


@dataclass(frozen=True, slots=True, eq=False)
class Offered:
    """A report with its readings checked against the catalogue. It is made once, since a report takes part in many merges."""

    report: SourceReport
    shape: ReportShape
    values: tuple[Value | None, ...]

    @property
    def key(self) -> tuple[str, str]:
        """The source and the poll."""
        return self.report.source, self.report.poll


def offered(report: SourceReport, extra: Mapping[str, Metric] = _NO_METRICS, before: Offered | None = None) -> Offered:
    """What a report offers, in the shape of the poll's report before if it fits; `extra` are metrics that plugins declare."""
    kept = before.shape if before is not None else None
    readings = report.report.readings
    names = (tuple(map(_DEVICE_OF, readings)), tuple(map(_METRIC_OF, readings)), tuple(map(_LABEL_OF, readings)))
    has_same_names = kept is not None and kept.columns.extra is extra and kept.columns.names == names
    made = kept.columns if kept is not None and has_same_names else columns(names, extra)
    values = made.values(readings)
    # What was checked is a float, or no number.
    no_numbers = {place: value for place, value in enumerate(values) if not isinstance(value, float)}
    rest = (made, no_numbers, report.report.devices, _traits(report))
    is_same = kept is not None and rest == (kept.columns, kept.no_numbers, kept.devices, kept.traits)
    return Offered(report, kept if kept is not None and is_same else ReportShape.of(*rest), values)


def _traits(report: SourceReport) -> tuple[object, ...]:
    whole = report.report
    return report.vendor, report.gives, report.lists_devices, whole.form, whole.index_space, whole.is_cut


NodeShape = tuple[tuple[tuple[str, str], ...], tuple[ReportShape, ...], tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Fresh:
    """The reports by number, in the order of their names.

    `turns` are their ranks by source and age, the newest first. `offsets` say where the values of each begin when
    all stand in one row. `host` has the numbers of those with readings of the host, the newest last.
    """

    offered: tuple[Offered, ...]
    number_of: Mapping[tuple[str, str], int]
    turns: tuple[int, ...]
    offsets: tuple[int, ...]
    host: tuple[int, ...]

    @classmethod
    def of(cls, reports: Iterable[Offered], now: float) -> Fresh:
        """Those of the reports that have not expired."""
        offered = tuple(sorted((one for one in reports if one.report.expires > now), key=_name))
        by_age = sorted(range(len(offered)), key=lambda number: -offered[number].report.taken)
        turn_of = {
            number: turn for turn, number in enumerate(sorted(by_age, key=lambda one: offered[one].report.source))
        }
        host = tuple(number for number in reversed(by_age) if None in offered[number].shape.by_device)
        return cls(
            offered,
            {_name(one): number for number, one in enumerate(offered)},
            tuple(turn_of[number] for number in range(len(offered))),
            tuple(accumulate((len(one.values) for one in offered), initial=0)),
            host,
        )

    @property
    def reports(self) -> tuple[SourceReport, ...]:
        """The reports themselves."""
        return tuple(one.report for one in self.offered)

    def shape(self) -> NodeShape:
        """All of the reports but their numbers and times, and the order of their times."""
        return tuple(self.number_of), tuple(one.shape for one in self.offered), self.turns, self.host

    def row(self) -> list[Value | None]:
        """All values in one row; behind them the absence of what nobody told."""
        row: list[Value | None] = []
        for one in self.offered:
            row += one.values
        row.append(Absent.NOT_REPORTED)
        return row

    def origins(self) -> tuple[Origin, ...]:
        """Where and when the readings of each report were taken."""
        return tuple(Origin(one.report.source, one.report.taken, one.report.interval) for one in self.offered)


def _name(offered: Offered) -> tuple[str, str]:
    return offered.report.source, offered.report.poll
