"""Renders a snapshot as another exporter's page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from telemetry_exporters.prometheus.compat.table import (
    USUAL_DECIMALS,
    DeviceContext,
    ExporterTable,
    Label,
    NodeIdentity,
    NodeRow,
    ReportedDevice,
    Sample,
    Scope,
)
from telemetry_exporters.prometheus.daemon_samples import DaemonSamples
from telemetry_exporters.prometheus.families import (
    Columns,
    Family,
    OwnerSeries,
    Series,
    SeriesNames,
    SharedLabels,
    columns_of,
    first_positions,
    leading_value_count,
)
from telemetry_exporters.prometheus.labels import Labels
from telemetry_exporters.prometheus.renderer import PageTemplate, Syntax
from telemetry_exporters.snapshot_filter import clean_snapshot
from telemetry_parsers.model import Absent, Metric, Snapshot, Value

# Like the other exporters, the page shows a card's pod only if the card has no other owner.
_OWNERS = OwnerSeries(inline_labels=("pod_namespace", "pod_name", "container_name", "job_id", "user", "partition"))
_VENDOR = "vendor"


class CompatRenderer:
    """Renders pages with another exporter's metric names, for the exporter's vendors or for all vendors."""

    def __init__(
        self, table: ExporterTable, node: NodeIdentity, hostname_label: str = "", *, all_vendors: bool = False
    ) -> None:
        self._table = _with_hostname_label(table, hostname_label)
        self._node = node
        self._all_vendors = all_vendors
        self._daemon_samples = DaemonSamples()
        self._layout: _Layout | None = None

    def page(self, snapshot: Snapshot, syntax: Syntax) -> bytes:
        """Return the page. OpenMetrics pages still need a final `# EOF`."""
        columns = columns_of(snapshot, self._daemon_samples, _OWNERS)
        numbers = None if self._layout is None else self._layout.numbers(columns, snapshot.hostname)
        if self._layout is None or numbers is None:
            snapshot = clean_snapshot(snapshot)
            columns = columns_of(snapshot, self._daemon_samples, _OWNERS)
            builder = _LayoutBuilder(self._table, self._node, snapshot, columns, all_vendors=self._all_vendors)
            self._layout = _Layout(builder)
            numbers = self._layout.numbers(columns, snapshot.hostname) or ()
        return self._layout.template.page(numbers, syntax)


def _with_hostname_label(table: ExporterTable, name: str) -> ExporterTable:
    if not name:
        return table
    spellings = table.hostname_labels
    labels = tuple(replace(label, name=name) if label.name in spellings else label for label in table.labels)
    return replace(table, labels=labels, node_label=name if table.node_label in spellings else table.node_label)


# (sample, factor, decimals): a plain tuple, because a page has thousands of numbers.
_Number = tuple[Sample, float, int]
_LabelledDevice = tuple[ReportedDevice, SharedLabels]


class _LayoutBuilder:
    """Builds the metric families of a page, and records the values on which the series depend."""

    def __init__(
        self, table: ExporterTable, node: NodeIdentity, snapshot: Snapshot, columns: Columns, *, all_vendors: bool
    ) -> None:
        self.hostname = snapshot.hostname
        self.columns = columns
        self.layout_values: dict[int, Value] = {}
        self.numbers: list[_Number] = []
        self._table = table
        self._node = replace(node, hostname=snapshot.hostname)
        self._all_vendors = all_vendors
        # The key is the metric name, because rows with the same name form one family.
        self._series: dict[str, tuple[Metric, list[Series]]] = {}
        self._added_series: set[tuple[str, SharedLabels]] = set()
        # Series with the same labels share an object, so that the labels are rendered once.
        self._shared_labels: dict[Labels, SharedLabels] = {}
        self._add_rows(snapshot)
        self.families = tuple(Family(metric, tuple(series)) for metric, series in self._series.values() if series)

    def _add_rows(self, snapshot: Snapshot) -> None:
        devices = list(self._reported_devices(snapshot))
        for row in self._table.rows:
            metric = Metric(self._table.prefix + row.name, row.kind, "", row.help)
            series = self._series.setdefault(metric.name, (metric, []))[1]
            for device, device_labels in devices if not row.scope else _devices_in_scope(row.scope, devices):
                for sample in row.formula.samples(device):
                    own_labels = (*row.labels, *_label_values(row.device_labels, device.context), *sample.labels)
                    labels = self._share_labels((*device_labels.labels, *own_labels)) if own_labels else device_labels
                    self._add_series(metric.name, series, (sample, row.factor, row.decimals), labels)
        for node_row in self._table.node_rows:
            self._add_node_row(node_row, [device.context for device, _ in devices], snapshot)

    def _share_labels(self, labels: Labels) -> SharedLabels:
        return self._shared_labels.setdefault(labels, SharedLabels(labels))

    def _add_series(self, name: str, series: list[Series], number: _Number, labels: SharedLabels) -> None:
        """Add a series, unless the family already has a series with these labels."""
        if (name, labels) not in self._added_series:
            self._added_series.add((name, labels))
            series.append((labels, "", len(self.numbers)))
            self.numbers.append(number)

    def _reported_devices(self, snapshot: Snapshot) -> Iterator[_LabelledDevice]:
        by_id = {device.id: device for device in snapshot.devices}
        with_partitions = {device.parent for device in snapshot.devices}
        starts, _ = first_positions(snapshot, self.columns.names)
        owner_labels = self.columns.names.owner_labels or ((),) * len(snapshot.devices)
        device_rows = zip(snapshot.devices, starts, self.columns.names.devices, owner_labels, strict=True)
        for device, start, (_, keys), owner in device_rows:
            is_exported_vendor = self._all_vendors or device.vendor in self._table.vendors
            if is_exported_vendor and (device.parent is None or self._table.has_partitions):
                card = by_id.get(device.parent or "", device)
                context = DeviceContext(device, card, self._node, dict(owner), device.id in with_partitions)
                yield self._reported_device(context, start, keys), self._share_labels(self._labels_of(context))

    def _labels_of(self, context: DeviceContext) -> Labels:
        labels = list(_label_values(self._table.labels, context))
        if self._all_vendors and all(name != _VENDOR for name, _ in labels):
            labels.append((_VENDOR, context.device.vendor))
        return tuple(labels)

    def _reported_device(self, context: DeviceContext, start: int, keys: Sequence[tuple[str, str]]) -> ReportedDevice:
        positions: dict[str, dict[str, int]] = {}
        if context.device.up is not None:
            positions["up"] = {"": start + 1}
        start += leading_value_count(context.device)
        incomplete_metrics = set()
        for position, (metric, label_value) in enumerate(keys, start):
            value = self.columns.values[position]
            if not isinstance(value, Absent):
                positions.setdefault(metric, {})[label_value] = position
            elif value is not Absent.NOT_SUPPORTED:
                incomplete_metrics.add(metric)
        return ReportedDevice(context, positions, frozenset(incomplete_metrics), self._read_and_record)

    def _read_and_record(self, position: int) -> float:
        value = self.columns.values[position]
        self.layout_values[position] = value
        return value if isinstance(value, float) else 0.0

    def _add_node_row(self, row: NodeRow, devices: Sequence[DeviceContext], snapshot: Snapshot) -> None:
        metric = Metric(self._table.prefix + row.name, row.kind, "", row.help)
        node_name = self._node.kubernetes_name or self._node.hostname
        labels = ((self._table.node_label, node_name),) if self._table.node_label else ()
        series = self._series.setdefault(metric.name, (metric, []))[1]
        if row.metric:
            positions = tuple(self._node_positions(row, snapshot))
            samples = [(labels, Sample(positions))] if positions else []
        else:
            label_sets = (tuple(_label_values(row.count_by, context)) for context in devices)
            counts = Counter(label_sets) if row.count_by else {(): len(devices)}
            samples = [((*labels, *counted), Sample(constant=float(count))) for counted, count in counts.items()]
        for series_labels, sample in samples:
            self._add_series(metric.name, series, (sample, 1.0, USUAL_DECIMALS), self._share_labels(series_labels))

    def _node_positions(self, row: NodeRow, snapshot: Snapshot) -> Iterator[int]:
        _, position = first_positions(snapshot, self.columns.names)
        for metric, labels in (series for group in self.columns.names.daemon for series in group):
            label_values = dict(labels)
            if (
                metric == row.metric
                and label_values["source"] == row.source
                and (label_values.get("poll") in row.polls or not row.polls)
            ):
                yield position
            position += 1


def _devices_in_scope(scope: Scope, devices: Iterable[_LabelledDevice]) -> Iterator[_LabelledDevice]:
    for device, labels in devices:
        is_card = device.context.device is device.context.card
        is_undivided = is_card and not device.context.is_divided
        is_leaf = is_undivided or not is_card
        is_in_scope = {"cards": is_card, "partitions": not is_card, "undivided": is_undivided, "leaves": is_leaf}
        if is_in_scope.get(scope, True):
            yield device, labels


def _label_values(labels: Iterable[Label], context: DeviceContext) -> Iterator[tuple[str, str]]:
    return ((label.name, text) for label in labels if (text := label.value_of(context)) is not None)


class _Layout:
    """The series of a page. A layout is reused while the snapshot has the same series."""

    def __init__(self, builder: _LayoutBuilder) -> None:
        values = builder.columns.values
        self._names_and_hostname = (builder.columns.names, builder.hostname)
        self._layout_values: Mapping[int, Value] = builder.layout_values
        self._absences = tuple((position, value) for position, value in enumerate(values) if isinstance(value, Absent))
        samples = [sample for sample, _, _ in builder.numbers]
        self._conversions = tuple((factor, decimals) for _, factor, decimals in builder.numbers)
        self._sums = tuple((sample.positions, sample.minus) for sample in samples if _is_computed(sample))
        self._constants = tuple(sample.constant for sample in samples if not sample.positions)
        self._positions = tuple(_number_positions(samples, len(values), len(self._constants)))
        self.template = PageTemplate(SeriesNames(), builder.families, len(samples))

    def numbers(self, columns: Columns, hostname: str) -> tuple[Value, ...] | None:
        """Return the page's numbers, or None if the layout does not fit the snapshot."""
        values = columns.values
        if (columns.names, hostname) != self._names_and_hostname:
            return None
        if any(values[position] != value for position, value in self._layout_values.items()):
            return None
        if any(values[position] is not value for position, value in self._absences):
            return None
        try:
            page_numbers = self._page_numbers(values)
        except TypeError:  # a value is no longer a number
            return None
        return page_numbers if self.template.is_valid_for(Columns(SeriesNames(), page_numbers)) else None

    def _page_numbers(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        sums = [_sum_at(values, positions) - _sum_at(values, minus) for positions, minus in self._sums]
        inputs = (*values, *self._constants, *sums)
        unscaled = [inputs[position] for position in self._positions]
        return tuple(
            [
                value if factor == 1.0 and decimals == USUAL_DECIMALS else _scale_value(value, factor, decimals)
                for value, (factor, decimals) in zip(unscaled, self._conversions, strict=True)
            ]
        )


def _scale_value(value: Value, factor: float, decimals: int) -> float:
    """Return the value in the other exporter's unit. Raise TypeError if the value is absent."""
    if isinstance(value, Absent):
        raise TypeError
    return round(value * factor, decimals)


def _sum_at(values: tuple[Value, ...], positions: Iterable[int]) -> float:
    return sum(_scale_value(values[position], 1.0, USUAL_DECIMALS) for position in positions)


def _is_computed(sample: Sample) -> bool:
    return len(sample.positions) > 1 or bool(sample.minus)


def _number_positions(samples: Iterable[Sample], value_count: int, constant_count: int) -> Iterator[int]:
    """Yield each sample's index in `_page_numbers`' inputs: the values, then the constants, then the sums."""
    next_constant, next_sum = value_count, value_count + constant_count
    for sample in samples:
        if _is_computed(sample):
            yield next_sum
            next_sum += 1
        elif sample.positions:
            yield sample.positions[0]
        else:
            yield next_constant
            next_constant += 1
