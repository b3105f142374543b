"""A page under another exporter's names, from a snapshot and that exporter's table. Absent readings have no line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from telemetry_exporters.prometheus.compat.table import DIGITS, Cell, Label, Node, NodeRow, Only, Peer, Reported, Who
from telemetry_exporters.prometheus.families import (
    Columns,
    Family,
    Names,
    Owner,
    OwnerSeries,
    Series,
    columns_of,
    first_positions,
    presence_values,
)
from telemetry_exporters.prometheus.labels import Labels
from telemetry_exporters.prometheus.own import OwnSamples
from telemetry_exporters.prometheus.renderer import Plan, Syntax
from telemetry_exporters.snapshot_filter import screen
from telemetry_parsers.model import Absent, Metric, Snapshot, Value

# Like other exporters, the page names the pod only of a card with exactly one owner.
_OF_OWNERS = OwnerSeries(inline_labels=("pod_namespace", "pod_name", "container_name", "job_id", "user", "partition"))
_VENDOR = "vendor"


class PeerRenderer:
    """Renders the pages of one other exporter. With `everybody`, cards of all vendors are on them."""

    def __init__(self, peer: Peer, node: Node, hostname_label: str = "", *, everybody: bool = False) -> None:
        self._peer = _with_hostname_label(peer, hostname_label)
        self._node = node
        self._everybody = everybody
        self._own = OwnSamples()
        self._table: _Table | None = None

    def page(self, snapshot: Snapshot, syntax: Syntax) -> bytes:
        """Return the page in that syntax; OpenMetrics without `# EOF`."""
        columns = columns_of(snapshot, self._own, _OF_OWNERS)
        numbers = None if self._table is None else self._table.numbers(columns, snapshot.hostname)
        if self._table is None or numbers is None:
            shown = screen(snapshot)
            columns = columns_of(shown, self._own, _OF_OWNERS)
            self._table = _Table(_Plotter(self._peer, self._node, shown, columns, everybody=self._everybody))
            numbers = self._table.numbers(columns, shown.hostname) or ()
        return self._table.plan.page(numbers, syntax)


def _with_hostname_label(peer: Peer, name: str) -> Peer:
    """Return the table with the configured name of the label for the node's name."""
    if not name:
        return peer
    labels = tuple(replace(label, name=name) if label.name in peer.hostname_labels else label for label in peer.labels)
    return replace(peer, labels=labels, node_label=name if peer.node_label in peer.hostname_labels else peer.node_label)


# A number of the page: its cell, factor and decimals. A plain tuple, because a page has thousands.
_Number = tuple[Cell, float, int]


class _Plotter:
    """Lays out the families of a screened snapshot, and records the values on which the layout depends."""

    def __init__(self, peer: Peer, node: Node, shown: Snapshot, columns: Columns, *, everybody: bool) -> None:
        self.hostname = shown.hostname
        self.columns = columns
        self.decided: dict[int, Value] = {}
        self.numbers: list[_Number] = []
        self._peer = peer
        self._node = replace(node, hostname=shown.hostname)
        self._everybody = everybody
        # By name, because rows of one name are one family with adjacent lines.
        self._series: dict[str, tuple[Metric, list[Series]]] = {}
        self._taken: set[tuple[str, Owner]] = set()
        # Series with the same labels share one owner, so that its text is made once.
        self._owner_of: dict[Labels, Owner] = {}
        self._plot(shown)
        self.families = tuple(Family(metric, tuple(series)) for metric, series in self._series.values() if series)

    def _plot(self, shown: Snapshot) -> None:
        reported_devices = list(self._reported_devices(shown))
        for row in self._peer.rows:
            metric = Metric(self._peer.prefix + row.name, row.kind, "", row.help)
            series = self._series.setdefault(metric.name, (metric, []))[1]
            for reported, owner in reported_devices if not row.only else _only(row.only, reported_devices):
                for cell in row.way.cells(reported):
                    of_row = (*row.labels, *_shown_labels(row.facts, reported.who)) if row.facts else row.labels
                    labels = (*of_row, *cell.labels)
                    series_owner = self._owner((*owner.labels, *labels)) if labels else owner
                    self._add(metric.name, series, (cell, row.times, row.digits), series_owner)
        for node_row in self._peer.node_rows:
            self._plan_node_row(node_row, [reported.who for reported, _ in reported_devices], shown)

    def _owner(self, labels: Labels) -> Owner:
        return self._owner_of.setdefault(labels, Owner(labels))

    def _add(self, name: str, series: list[Series], number: _Number, owner: Owner) -> None:
        """Add a line, unless there is one with the same labels, which would make the page invalid."""
        if (name, owner) not in self._taken:
            self._taken.add((name, owner))
            series.append((owner, "", len(self.numbers)))
            self.numbers.append(number)

    def _reported_devices(self, shown: Snapshot) -> Iterator[tuple[Reported, Owner]]:
        by_id = {device.id: device for device in shown.devices}
        divided = {device.parent for device in shown.devices}
        firsts, _ = first_positions(shown, self.columns.names)
        inline = self.columns.names.inline or ((),) * len(shown.devices)
        aligned = zip(shown.devices, firsts, self.columns.names.devices, inline, strict=True)
        for device, first, (_, keys), of_owner in aligned:
            is_ours = self._everybody or device.vendor in self._peer.vendors
            if is_ours and (device.parent is None or self._peer.has_partitions):
                card = by_id.get(device.parent or "", device)
                who = Who(device, card, self._node, dict(of_owner), device.id in divided)
                yield self._reported(who, first, keys), self._owner(self._labels(who))

    def _labels(self, who: Who) -> Labels:
        labels = list(_shown_labels(self._peer.labels, who))
        if self._everybody and all(name != _VENDOR for name, _ in labels):
            labels.append((_VENDOR, who.device.vendor))
        return tuple(labels)

    def _reported(self, who: Who, first: int, keys: Sequence[tuple[str, str]]) -> Reported:
        positions: dict[str, dict[str, int]] = {}
        if who.device.up is not None:
            positions["up"] = {"": first + 1}
        first += presence_values(who.device)
        gaps = set()
        for position, (metric, word) in enumerate(keys, first):
            value = self.columns.values[position]
            if not isinstance(value, Absent):
                positions.setdefault(metric, {})[word] = position
            elif value is not Absent.NOT_SUPPORTED:
                gaps.add(metric)
        return Reported(who, positions, frozenset(gaps), self._decisive)

    def _decisive(self, position: int) -> float:
        value = self.columns.values[position]
        self.decided[position] = value
        return value if isinstance(value, float) else 0.0

    def _plan_node_row(self, row: NodeRow, devices: Sequence[Who], shown: Snapshot) -> None:
        metric = Metric(self._peer.prefix + row.name, row.kind, "", row.help)
        node_name = self._node.kubernetes_name or self._node.hostname
        labels = ((self._peer.node_label, node_name),) if self._peer.node_label else ()
        series = self._series.setdefault(metric.name, (metric, []))[1]
        if row.metric:
            positions = tuple(self._own_positions(row, shown))
            cells = [(labels, Cell(positions))] if positions else []
        else:
            counts = Counter(tuple(_shown_labels(row.by, who)) for who in devices) if row.by else {(): len(devices)}
            cells = [((*labels, *by), Cell(constant=float(count))) for by, count in counts.items()]
        for series_labels, cell in cells:
            self._add(metric.name, series, (cell, 1.0, DIGITS), self._owner(series_labels))

    def _own_positions(self, row: NodeRow, shown: Snapshot) -> Iterator[int]:
        _, position = first_positions(shown, self.columns.names)
        for metric, labels in (name for group in self.columns.names.own for name in group):
            reported = dict(labels)
            if (
                metric == row.metric
                and reported["source"] == row.source
                and (reported.get("poll") in row.polls or not row.polls)
            ):
                yield position
            position += 1


def _only(which: Only, reported_devices: Iterable[tuple[Reported, Owner]]) -> Iterator[tuple[Reported, Owner]]:
    """Yield the devices to which a row with this restriction applies."""
    for reported, owner in reported_devices:
        is_card = reported.who.device is reported.who.card
        undivided = is_card and not reported.who.is_divided
        fits = {"cards": is_card, "partitions": not is_card, "undivided": undivided, "leaves": undivided or not is_card}
        if fits.get(which, True):
            yield reported, owner


def _shown_labels(labels: Iterable[Label], who: Who) -> Iterator[tuple[str, str]]:
    """Yield the labels that this device has, with their values."""
    return ((label.name, text) for label in labels if (text := label.fact(who)) is not None)


class _Table:
    """A layout that is valid for all snapshots with the same names, absences and decisive values."""

    def __init__(self, plotter: _Plotter) -> None:
        values = plotter.columns.values
        self._key = (plotter.columns.names, plotter.hostname)
        self._decided: Mapping[int, Value] = plotter.decided
        self._absent = tuple((position, value) for position, value in enumerate(values) if isinstance(value, Absent))
        cells = [cell for cell, _, _ in plotter.numbers]
        self._units = tuple((times, digits) for _, times, digits in plotter.numbers)
        self._sums = tuple((cell.positions, cell.minus) for cell in cells if _is_sum(cell))
        self._constants = tuple(cell.constant for cell in cells if not cell.positions)
        self._positions = tuple(_positions(cells, len(values), len(self._constants)))
        self.plan = Plan(Names(), plotter.families, len(cells))

    def numbers(self, columns: Columns, hostname: str) -> tuple[Value, ...] | None:
        """Return the page's numbers, or None if the layout is not valid for these columns."""
        values = columns.values
        if (columns.names, hostname) != self._key:
            return None
        if any(values[position] != value for position, value in self._decided.items()):
            return None
        if any(values[position] is not value for position, value in self._absent):
            return None
        try:
            numbers = self._multiplied(values)
        except TypeError:  # a number has become absent
            return None
        return numbers if self.plan.holds(Columns(Names(), numbers)) else None

    def _multiplied(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        sums = [_sum(values, positions) - _sum(values, minus) for positions, minus in self._sums]
        every = (*values, *self._constants, *sums)
        picked = [every[position] for position in self._positions]
        return tuple(
            [
                value if times == 1.0 and digits == DIGITS else _scaled(value, times, digits)
                for value, (times, digits) in zip(picked, self._units, strict=True)
            ]
        )


def _scaled(value: Value, times: float, digits: int) -> float:
    """Return the value in the other unit. Raises TypeError if it is absent."""
    if isinstance(value, Absent):
        raise TypeError
    return round(value * times, digits)


def _sum(values: tuple[Value, ...], positions: Iterable[int]) -> float:
    """Return the sum of the values at these positions. Raises TypeError if one is absent."""
    return sum(_scaled(values[position], 1.0, DIGITS) for position in positions)


def _is_sum(cell: Cell) -> bool:
    return len(cell.positions) > 1 or bool(cell.minus)


def _positions(cells: Iterable[Cell], values: int, constants: int) -> Iterator[int]:
    """Yield the position of each number among the values, followed by the constants and the sums."""
    constant, total = values, values + constants
    for cell in cells:
        if _is_sum(cell):
            yield total
            total += 1
        elif cell.positions:
            yield cell.positions[0]
        else:
            yield constant
            constant += 1
