"""Stores the names of a report's readings separately from their values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from operator import attrgetter

from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.metrics import BY_KEY, Limits, checked_value, limits
from telemetry_parsers.model import Absent, Device, Metric, Reading, SourceReport, Value
from telemetry_parsers.readings import Origin, ReadingKey

_NO_METRICS: Mapping[str, Metric] = {}
MEMORY_RATIO: ReadingKey = ("memory_used_ratio", "")
RATIO_INPUTS: tuple[ReadingKey, ReadingKey] = (("memory_used_bytes", ""), ("memory_total_bytes", ""))
# The merge determines these metrics itself, and ignores readings of these metrics in reports.
MERGE_METRICS = frozenset({"info", "up", "unread", "peak_flops", "flops_per_cycle", "peak_memory_bytes_per_second"})
# If all sources report an `Absent` value for a metric, the value with the lowest rank is used.
ABSENCE_RANK = {
    Absent.NOT_UNDERSTOOD: 0,
    Absent.IMPLAUSIBLE: 1,
    Absent.NOT_PERMITTED: 2,
    Absent.NOT_SUPPORTED: 3,
    Absent.NOT_REPORTED: 4,
}
NUMBER_RANK = -1  # a number is preferred to an `Absent` value

# The columns of a report's readings (devices, metrics, labels), which are compared at every poll.
NameColumns = tuple[tuple[int | None, ...], tuple[str, ...], tuple[str, ...]]
_get_device, _get_metric, _get_label = attrgetter("device"), attrgetter("metric"), attrgetter("label")
_get_value = attrgetter("value")


@dataclass(frozen=True, slots=True, eq=False)
class ReportColumns:
    """The names and limits of a report's valid readings, and the positions of its memory ratios."""

    names: NameColumns
    plugin_metrics: Mapping[str, Metric]
    metrics: frozenset[str]
    positions: tuple[int, ...]  # positions of the valid readings in the report, without unknown metrics
    keys: tuple[ReadingKey, ...]
    devices: tuple[int | None, ...]
    limits: tuple[Limits, ...]
    counters: frozenset[int]
    ratios: Mapping[tuple[int, int], int]  # maps the positions of (used, total) memory to the ratio's position

    def values(self, readings: Sequence[Reading]) -> tuple[Value | None, ...]:
        """Return the checked values of these readings, and the memory ratios."""
        values = list(map(_get_value, readings))
        if len(self.positions) < len(values):
            values = [values[position] for position in self.positions]
        checked: list[Value | None] = [
            value or 0.0  # -0.0 becomes 0.0
            if value.__class__ is float and bounds.low <= value <= bounds.high and value not in bounds.sentinels
            else checked_value(bounds, value)
            for value, bounds in zip(values, self.limits, strict=True)
        ]
        checked += [_memory_ratio(checked[used], checked[total]) for used, total in self.ratios]
        return tuple(checked)


def create_columns(names: NameColumns, plugin_metrics: Mapping[str, Metric]) -> ReportColumns:
    """Create the columns of a report from the names of its readings."""
    metrics = {key: BY_KEY.get(key) or plugin_metrics.get(key) for key in names[1] if key not in MERGE_METRICS}
    limits_by_key = {key: limits(metric) for key, metric in metrics.items() if metric is not None}
    counter_keys = {key for key, metric in metrics.items() if metric is not None and metric.kind == "counter"}
    positions = tuple(position for position, key in enumerate(names[1]) if key in limits_by_key)
    valid_names = [(device, (key, label)) for device, key, label in zip(*names, strict=True) if key in limits_by_key]
    # If a reading occurs twice, the first is used.
    positions_by_name = {name: position for position, name in reversed(list(enumerate(valid_names)))}
    # Most devices of a report have the same readings, so sharing equal keys saves memory.
    shared_keys = {key: key for _, key in valid_names}
    used, total = (
        {device: position for (device, key), position in positions_by_name.items() if key == input_key}
        for input_key in RATIO_INPUTS
    )
    ratios = {device: (used[device], total[device]) for device in used if device in total and device is not None}
    return ReportColumns(
        names=names,
        plugin_metrics=plugin_metrics,
        metrics=frozenset(limits_by_key),
        positions=positions,
        keys=(*(shared_keys[key] for _, key in valid_names), *(MEMORY_RATIO for _ in ratios)),
        devices=(*(device for device, _ in valid_names), *ratios),
        limits=tuple(limits_by_key[key] for _, (key, _) in valid_names),
        counters=frozenset(position for position, (_, (key, _)) in enumerate(valid_names) if key in counter_keys),
        ratios={pair: len(valid_names) + rank for rank, pair in enumerate(ratios.values())},
    )


def _memory_ratio(used: Value | None, total: Value | None) -> Value | None:
    if used is None or total is None or isinstance(used, Absent) or isinstance(total, Absent) or total <= 0:
        return None
    return used / total if used <= total else Absent.IMPLAUSIBLE


@dataclass(frozen=True, slots=True, eq=False)
class ReportShape:
    """The properties of a report that rarely change: everything except numbers and times."""

    columns: ReportColumns
    absence_by_position: Mapping[int, Absent | None]
    devices: tuple[Device, ...]
    traits: tuple[object, ...]
    by_device: Mapping[int | None, tuple[int, ...]]
    ranks: tuple[int, ...]

    @classmethod
    def create(
        cls,
        columns: ReportColumns,
        absence_by_position: Mapping[int, Absent | None],
        devices: tuple[Device, ...],
        traits: tuple[object, ...],
    ) -> ReportShape:
        """Create a shape, and rank its values: numbers are preferred to `Absent` values."""
        by_device: dict[int | None, list[int]] = {}
        for position, device in enumerate(columns.devices[: len(columns.limits)]):
            by_device.setdefault(device, []).append(position)
        ranks = [NUMBER_RANK] * len(columns.keys)
        for position, absence in absence_by_position.items():
            ranks[position] = NUMBER_RANK if absence is None else ABSENCE_RANK[absence]
        positions_by_device = {device: tuple(positions) for device, positions in by_device.items()}
        return cls(columns, absence_by_position, devices, traits, positions_by_device, tuple(ranks))


@dataclass(frozen=True, slots=True, eq=False)
class CheckedReport:
    """A report with checked readings."""

    report: SourceReport
    shape: ReportShape
    values: tuple[Value | None, ...]

    @property
    def key(self) -> tuple[str, str]:
        """Return the source and the poll of the report."""
        return self.report.source, self.report.poll


def check_report(
    report: SourceReport, plugin_metrics: Mapping[str, Metric] = _NO_METRICS, previous: CheckedReport | None = None
) -> CheckedReport:
    """Check the readings of a report. Reuse the shape of `previous` if only numbers and times differ."""
    shape = previous.shape if previous is not None else None
    readings = report.report.readings
    names = (tuple(map(_get_device, readings)), tuple(map(_get_metric, readings)), tuple(map(_get_label, readings)))
    columns = shape.columns if shape is not None else None
    if columns is None or columns.plugin_metrics is not plugin_metrics or columns.names != names:
        columns = create_columns(names, plugin_metrics)
    values = columns.values(readings)
    # Maps positions to the values that are not numbers. None stands for a memory ratio that cannot be computed.
    absence_by_position = {position: value for position, value in enumerate(values) if not isinstance(value, float)}
    properties = (columns, absence_by_position, report.report.devices, _report_traits(report))
    if shape is None or properties != (shape.columns, shape.absence_by_position, shape.devices, shape.traits):
        shape = ReportShape.create(*properties)
    return CheckedReport(report, shape, values)


def _report_traits(report: SourceReport) -> tuple[object, ...]:
    content = report.report
    return report.vendor, report.gives, report.lists_devices, content.form, content.index_space, content.is_cut


NodeShape = tuple[
    tuple[tuple[str, str], ...], tuple[ReportShape, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]
]


def preference_key(report: SourceReport) -> tuple[float, float]:
    """Return a sort key for the reports of one source: short intervals first, then new reports."""
    return report.interval, -report.taken


def newest_lists(reports: Iterable[SourceReport]) -> dict[str, SourceReport]:
    """Map each source to the newest of its reports that list devices."""
    listing_reports = sorted((report for report in reports if report.lists_devices), key=lambda report: report.taken)
    return {report.source: report for report in listing_reports}


@dataclass(frozen=True, slots=True)
class FreshReports:
    """All reports that have not expired, and their order of preference."""

    reports: tuple[CheckedReport, ...]
    index_by_poll: Mapping[tuple[str, str], int]  # maps (source, poll) to the report's index
    preference_ranks: tuple[int, ...]
    offsets: tuple[int, ...]  # where each report's values begin in `row()`
    host_indices: tuple[int, ...]  # reports with readings of the host, the preferred report last

    @classmethod
    def from_reports(cls, unsorted: Iterable[CheckedReport], now: float) -> FreshReports:
        """Select the reports that have not expired at the monotonic time `now`."""
        reports = tuple(
            sorted((checked for checked in unsorted if checked.report.expires > now), key=attrgetter("key"))
        )
        rank_by_index = {index: rank for rank, index in enumerate(_indices_by_preference(reports))}
        host = [index for index in reversed(rank_by_index) if None in reports[index].shape.by_device]
        host_keys = [key for index in host for key in _host_keys(reports[index].shape)]
        if len(set(host_keys)) < len(host_keys):
            host.sort(key=lambda index: reports[index].report.taken)
        host.sort(key=lambda index: reports[index].report.interval, reverse=True)
        return cls(
            reports,
            {checked.key: index for index, checked in enumerate(reports)},
            tuple(rank_by_index[index] for index in range(len(reports))),
            tuple(accumulate((len(checked.values) for checked in reports), initial=0)),
            tuple(host),
        )

    @property
    def source_reports(self) -> tuple[SourceReport, ...]:
        """Return the reports as the sources created them."""
        return tuple(checked.report for checked in self.reports)

    def shape(self) -> NodeShape:
        """Return all properties of the reports except numbers and exact times."""
        lists = tuple(
            self.index_by_poll[report.source, report.poll] for report in newest_lists(self.source_reports).values()
        )
        return (
            tuple(self.index_by_poll),
            tuple(checked.shape for checked in self.reports),
            self.preference_ranks,
            self.host_indices,
            tuple(sorted(lists)),
        )

    def row(self) -> list[Value | None]:
        """Return the values of all reports in one list. The last item is `NOT_REPORTED`."""
        row: list[Value | None] = []
        for checked in self.reports:
            row += checked.values
        row.append(Absent.NOT_REPORTED)
        return row

    def origins(self) -> tuple[Origin, ...]:
        """Return the source, time and interval of each report."""
        return tuple(
            Origin(checked.report.source, checked.report.taken, checked.report.interval) for checked in self.reports
        )


def _indices_by_preference(reports: Sequence[CheckedReport]) -> Iterator[int]:
    """Yield the indices of the reports, sorted by source and then by interval."""

    def source_and_interval(index: int) -> tuple[str, float]:
        return reports[index].report.source, reports[index].report.interval

    for _, group in groupby(sorted(range(len(reports)), key=source_and_interval), source_and_interval):
        indices = list(group)
        metrics = [reports[index].shape.columns.metrics for index in indices]
        # If reports have metrics in common, the newest comes first. Else, a fixed order lets the merge reuse results.
        if len(frozenset().union(*metrics)) < sum(map(len, metrics)):
            indices.sort(key=lambda index: -reports[index].report.taken)
        yield from indices


def _host_keys(shape: ReportShape) -> Iterator[ReadingKey]:
    return (shape.columns.keys[position] for position in shape.by_device[None])
