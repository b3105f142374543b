"""The arrangement of a merge: the node's devices, and the source of each reading."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

from telemetry_parsers.combining import name_of
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.merge import identity, joining, numbering, precedence, presence
from telemetry_parsers.merge.identity import NamedDevice
from telemetry_parsers.merge.joining import sightings
from telemetry_parsers.merge.merge_state import MergeState
from telemetry_parsers.merge.precedence import NO_POSITION, REPORT_INDEX, Choice, Pins
from telemetry_parsers.merge.presence import DeviceEvent
from telemetry_parsers.merge.report_columns import FreshReports
from telemetry_parsers.metrics import BY_KEY
from telemetry_parsers.model import Identity, MergedDevice, Problem, SourceReport, Value
from telemetry_parsers.readings import ReadingKey, Shape

Problems = tuple[tuple[str, Problem], ...]
DisplayOrder = tuple[str, tuple[tuple[int, str], ...], str]


@dataclass(frozen=True, slots=True)
class ReadingPositions:
    """The positions of a device's readings in `FreshReports.row()`. `select_values(row)` returns their values."""

    shape: Shape
    select_values: Callable[[Sequence[Value | None]], tuple[Value, ...]]
    report_indices: frozenset[int]


@dataclass(frozen=True, slots=True)
class ArrangedDevice:
    """A listed device. `report_positions` are pairs of a report's index and the device's position in the report."""

    device: MergedDevice
    readings: ReadingPositions
    report_positions: tuple[tuple[int, int], ...]
    list_indices: tuple[int, ...]  # indices of the newest lists with the device
    polls: int


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The devices in order, and the positions of their readings."""

    shape: object
    pending_vendors: frozenset[str]
    state_before: MergeState
    state_after: MergeState
    valid_until: float
    devices: tuple[ArrangedDevice | MergedDevice, ...]
    host: ReadingPositions
    problems: Problems
    events: tuple[DeviceEvent, ...]
    device_ids: Mapping[tuple[str, str], tuple[str | None, ...]]

    def is_valid_for(self, fresh: FreshReports, state: MergeState, wall_time: float, pending: frozenset[str]) -> bool:
        """Return whether the arrangement can be reused for these reports."""
        return (
            state.shares_objects_with(self.state_before)
            and self.state_after.shares_objects_with(self.state_before)
            and wall_time < self.valid_until
            and pending == self.pending_vendors
            and fresh.shape() == self.shape
        )


def arrange(
    fresh: FreshReports, state: MergeState, wall_time: float, pending: frozenset[str], reusable: Iterable[Shape] = ()
) -> Arrangement:
    """Arrange the node's devices, and choose a report for each of their readings."""
    numbered = numbering.with_addresses(sightings(fresh.source_reports), fresh.source_reports, state.learnt_addresses)
    joined = joining.join(numbered.sightings)
    naming = identity.name_groups(joined.groups, state, pending)
    devices, new_devices = naming.devices, naming.new_devices
    # Pending vendors are excluded, because a source that has listed no devices yet may list a missing device.
    listing_sources = {
        report.source for report in fresh.source_reports if _is_complete_list(report) and report.vendor not in pending
    }
    numbering_sources = numbering.sources_without_addresses(numbered.sightings)
    listing_sources.difference_update(numbered.renumbered_sources)
    new_presence = presence.update(state, devices, listing_sources, numbering_sources, wall_time)
    pins = dict(state.counter_sources)
    chosen = _choose_readings(devices, fresh, pins, pending)
    shapes = _ShapeCache(reusable)
    arranged_devices = _arranged_devices(devices, chosen, fresh, shapes)
    unconfirmed = new_devices.unconfirmed
    confirmed_groups = [unconfirmed[id(group)].group if id(group) in unconfirmed else group for group in joined.groups]
    state_after_merge = MergeState(
        identities=new_presence.identities,
        list_history=state.list_history,
        witnesses=new_devices.witnesses,
        forgotten_counts=new_presence.forgotten_counts,
        learnt_addresses=numbering.combine_learnt(numbered.learnt, numbering.learn_addresses(confirmed_groups)),
        counter_sources=precedence.prune_pins(pins, {item.id for item in new_presence.identities}, chosen.items()),
    )
    return Arrangement(
        shape=fresh.shape(),
        pending_vendors=pending,
        state_before=state,
        state_after=state_after_merge.reuse_if_equal(state),
        valid_until=min(
            (lost.lost_since + presence.FORGET_AFTER_SECONDS for lost in new_presence.lost if lost.lost_since),
            default=math.inf,
        ),
        devices=tuple(sorted((*arranged_devices, *map(absent_device, new_presence.lost)), key=_device_order)),
        host=_host_readings(fresh, shapes),
        problems=(
            *numbered.problems,
            *joined.problems,
            *map(_unnamed_problem, naming.unnamed),
            *(device.problem for device in unconfirmed.values()),
            *new_presence.problems,
        ),
        events=new_presence.events,
        device_ids=_device_ids(fresh, devices),
    )


class _ShapeCache:
    """Shares one shape among devices that have the same readings."""

    def __init__(self, shapes: Iterable[Shape]) -> None:
        self._shapes = {(shape.keys, shape.origins): shape for shape in shapes}

    def locate(
        self, chosen: Mapping[ReadingKey, Choice], fresh: FreshReports, report_indices: Iterable[int]
    ) -> ReadingPositions:
        """Return the positions of the chosen readings."""
        keys, origins = tuple(chosen), tuple(choice[REPORT_INDEX] for choice in chosen.values())
        shape = self._shapes.setdefault((keys, origins), Shape(keys, origins))
        positions = [
            position if position == NO_POSITION else fresh.offsets[report_index] + position
            for _value_rank, _form_rank, _report_rank, report_index, position in chosen.values()
        ]
        return ReadingPositions(shape, _create_values_getter(positions), frozenset(report_indices))


def _create_values_getter(positions: Sequence[int]) -> Callable[[Sequence[Value | None]], tuple[Value, ...]]:
    if len(positions) > 1:
        return itemgetter(*positions)
    return lambda row: tuple(value for position in positions if (value := row[position]) is not None)


def _choose_readings(
    devices: Sequence[NamedDevice], fresh: FreshReports, pins: Pins, pending: frozenset[str]
) -> dict[str, dict[ReadingKey, Choice]]:
    missing_metrics = precedence.MissingMetrics(fresh)
    chosen: dict[str, dict[ReadingKey, Choice]] = {}
    for device in devices:
        choices = precedence.choose_readings(device, fresh, pins, pending)
        chosen[device.identity.id] = {**choices, **missing_metrics.find_absences(device, choices)}
    for device in devices:
        _drop_card_metrics(chosen[device.identity.id], chosen.get(device.identity.parent or ""))
    return chosen


def _drop_card_metrics(choices: dict[ReadingKey, Choice], card_choices: Mapping[ReadingKey, Choice] | None) -> None:
    """Drop a partition's card-level metrics, such as power, if the card reports them."""
    if card_choices is None:
        return
    metrics = {metric for (metric, _), choice in card_choices.items() if precedence.is_number(choice)}
    for key in [key for key in choices if key[0] in metrics and key[0] in BY_KEY and BY_KEY[key[0]].card_level]:
        del choices[key]


def _arranged_devices(
    devices: Iterable[NamedDevice],
    chosen: Mapping[str, Mapping[ReadingKey, Choice]],
    fresh: FreshReports,
    shapes: _ShapeCache,
) -> Iterator[ArrangedDevice]:
    for named in devices:
        positions = tuple(
            (fresh.index_by_poll[report.source, report.poll], position) for report, position in named.group.occurrences
        )
        # A sighting without occurrences is excluded, because all its reports were about an unconfirmed new device.
        list_polls = {
            (item.list_report.source, item.list_report.poll) for item in named.group.sightings if item.occurrences
        }
        device = _merged_device(named)
        yield ArrangedDevice(
            device,
            shapes.locate(chosen[device.id] if device.up else {}, fresh, (index for index, _ in positions)),
            positions,
            tuple(sorted(fresh.index_by_poll[poll] for poll in list_polls)),
            named.identity.polls if named.identity.listed_by else 0,
        )


def _merged_device(named_device: NamedDevice) -> MergedDevice:
    identity, device = named_device.identity, named_device.group.device
    facts = dict(device.facts)
    if identity.power_kind is not None:
        facts["power_kind"] = identity.power_kind
    return replace(
        absent_device(identity),
        index=device.index if device.index is not None else identity.index,
        driver=device.driver,
        up=device.up,
        simulated=device.simulated,
        facts=tuple(sorted(facts.items())),
        current_model=device.model,
    )


def _is_complete_list(report: SourceReport) -> bool:
    return report.lists_devices and not report.report.is_cut


def absent_device(identity: Identity) -> MergedDevice:
    """Return a device for an identity that no source currently lists."""
    return MergedDevice(
        vendor=identity.vendor,
        index=identity.index,
        id=identity.id,
        device=identity.device,
        model=identity.model,
        uuid=identity.uuid,
        bus_id=identity.bus_id,
        serial=identity.serial,
        up=False,
        parent=identity.parent,
        partition=identity.partition,
        simulated=identity.simulated,
        current_model=identity.model or None,
    )


def _host_readings(fresh: FreshReports, shapes: _ShapeCache) -> ReadingPositions:
    choices: dict[ReadingKey, Choice] = {}
    for report_index in fresh.host_indices:
        shape = fresh.reports[report_index].shape
        for position in shape.by_device[None]:
            key = shape.columns.keys[position]
            if key[0] in BY_KEY and BY_KEY[key[0]].scope == "host":
                choices[key] = (shape.ranks[position], 0, 0, report_index, position)
    return shapes.locate(choices, fresh, fresh.host_indices)


def _device_ids(fresh: FreshReports, devices: Iterable[NamedDevice]) -> dict[tuple[str, str], tuple[str | None, ...]]:
    ids_by_poll: dict[tuple[str, str], list[str | None]] = {
        (source_report.source, source_report.poll): [None] * len(source_report.report.devices)
        for source_report in fresh.source_reports
    }
    for device in devices:
        for report, position in device.group.occurrences:
            ids_by_poll[(report.source, report.poll)][position] = device.identity.id
    return {key: tuple(ids) for key, ids in ids_by_poll.items()}


def _unnamed_problem(group: joining.SightingGroup) -> tuple[str, Problem]:
    where = name_of(group.device)
    return group.sightings[0].source, Problem(where, "the device is hidden: another device has the same identity")


def _device_order(device: ArrangedDevice | MergedDevice) -> DisplayOrder:
    return display_order(device.device if isinstance(device, ArrangedDevice) else device)


def display_order(device: MergedDevice) -> DisplayOrder:
    """Return the sort key of a device: vendor, label (numbers in numeric order), and id."""
    label_order = tuple((int(part), "") if part.isdigit() else (-1, part) for part in device.device.split(":"))
    return device.vendor, label_order, device.id
