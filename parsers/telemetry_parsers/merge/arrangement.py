"""The arrangement of a merge: which devices there are, and which value of which report each of their readings is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from operator import itemgetter

from telemetry_parsers.combining import name_of
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.merge import identity, joining, numbering, precedence, presence
from telemetry_parsers.merge.identity import Named
from telemetry_parsers.merge.joining import sightings
from telemetry_parsers.merge.memory import MergeState
from telemetry_parsers.merge.precedence import NOWHERE, Choice
from telemetry_parsers.merge.presence import DeviceEvent
from telemetry_parsers.merge.report_columns import Fresh
from telemetry_parsers.metrics import BY_KEY
from telemetry_parsers.model import Identity, MergedDevice, Problem, SourceReport, Value
from telemetry_parsers.readings import ReadingKey, Shape

Problems = tuple[tuple[str, Problem], ...]
DisplayOrder = tuple[str, tuple[tuple[int, str], ...], str]


@dataclass(frozen=True, slots=True)
class Positions:
    """The keys of the readings (`shape`) of a device or the host, their positions in the row of all reports, and the reports."""

    shape: Shape
    values: Callable[[Sequence[Value | None]], tuple[Value, ...]]
    reports: frozenset[int]


@dataclass(frozen=True, slots=True)
class Slot:
    """A listed device with the positions of its readings, the preferred (report, position) first (`parts`), and the newest lists."""

    device: MergedDevice
    readings: Positions
    parts: tuple[tuple[int, int], ...]
    listings: tuple[int, ...]
    polls: int


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The devices in order, and the states before and after. `holds_until` is the time at which a lost device is forgotten."""

    shape: object
    pending: frozenset[str]
    before: MergeState
    after: MergeState
    holds_until: float
    devices: tuple[Slot | MergedDevice, ...]
    host: Positions
    problems: Problems
    events: tuple[DeviceEvent, ...]
    positions: Mapping[tuple[str, str], tuple[str | None, ...]]

    def may_hold(self, state: MergeState) -> bool:
        """Return whether the arrangement was made from this state and left it unchanged. Otherwise it never applies again."""
        return state.is_as(self.before) and self.after.is_as(self.before)

    def holds(self, fresh: Fresh, state: MergeState, wall: float, pending: frozenset[str]) -> bool:
        """Return whether the arrangement applies: only values of the reports are new, and the state is unchanged."""
        return (
            self.may_hold(state) and wall < self.holds_until and pending == self.pending and fresh.shape() == self.shape
        )


def arrange(
    fresh: Fresh, state: MergeState, wall: float, pending: frozenset[str], reusable: Iterable[Shape] = ()
) -> Arrangement:
    """Return the node's devices with the chosen reading of each metric. Equal shapes in `reusable` are used again."""
    recalled = numbering.recall(sightings(fresh.reports), fresh.reports, state.learnt)
    joined = joining.join(recalled.sightings)
    naming = identity.name(joined.groups, state, pending)
    named, weighed = naming.named, naming.weighed
    # Until the first inventory is over, another source of the vendor may still list a device missing from this list.
    listing = {report.source for report in fresh.reports if _is_whole_list(report) and report.vendor not in pending}
    numbering_sources = numbering.numbers_only(recalled.sightings)
    present = presence.update(state, named, listing.difference(recalled.unmatched), numbering_sources, wall)
    counters = dict(state.counters)
    chosen = _chosen(named, fresh, counters, pending)
    shapes = _Shapes(reusable)
    believed = [weighed.doubts[id(group)].group if id(group) in weighed.doubts else group for group in joined.groups]
    after = MergeState(
        identities=present.identities,
        seen=state.seen,
        doubts=weighed.remembered,
        forgotten=present.forgotten,
        learnt=numbering.remember(recalled.learnt, numbering.learn(believed)),
        counters=precedence.remember(counters, {identity.id for identity in present.identities}, chosen.items()),
    )
    return Arrangement(
        shape=fresh.shape(),
        pending=pending,
        before=state,
        after=after.or_equal(state),
        holds_until=min(
            (lost.lost_since + presence.FORGET_AFTER_SECONDS for lost in present.lost if lost.lost_since),
            default=math.inf,
        ),
        devices=tuple(
            sorted((*_slots(named, chosen, fresh, shapes), *map(lost_device, present.lost)), key=_slot_order)
        ),
        host=_host(fresh, shapes),
        problems=(
            *recalled.problems,
            *joined.problems,
            *map(_nameless_problem, naming.nameless),
            *(doubt.problem for doubt in weighed.doubts.values()),
            *present.problems,
        ),
        events=present.events,
        positions=_positions(fresh, named),
    )


class _Shapes:
    """Shares shapes between devices with the same readings: most devices of a node have the same shape."""

    def __init__(self, shapes: Iterable[Shape]) -> None:
        self._shapes = {(shape.keys, shape.origins): shape for shape in shapes}

    def positions_of(self, chosen: Mapping[ReadingKey, Choice], fresh: Fresh, reports: Iterable[int]) -> Positions:
        """Return the positions of the chosen readings."""
        keys, origins = tuple(chosen), tuple(choice[-2] for choice in chosen.values())
        shape = self._shapes.setdefault((keys, origins), Shape(keys, origins))
        row = [
            position if position == NOWHERE else fresh.offsets[number] + position
            for *_, number, position in chosen.values()
        ]
        return Positions(shape, _getter(row), frozenset(reports))


def _getter(row: Sequence[int]) -> Callable[[Sequence[Value | None]], tuple[Value, ...]]:
    """Return a function that picks the values at these positions from a row, always as a tuple."""
    if len(row) > 1:
        return itemgetter(*row)
    return lambda values: tuple(value for position in row if (value := values[position]) is not None)


def _chosen(
    named: Iterable[Named], fresh: Fresh, counters: MutableMapping[tuple[str, str, str], str], pending: frozenset[str]
) -> dict[str, dict[ReadingKey, Choice]]:
    """Return the position of each reading of each device that is up, by device id."""
    named = tuple(named)
    absences = precedence.Absences(fresh)
    chosen: dict[str, dict[ReadingKey, Choice]] = {}
    for item in named:
        of_device = precedence.choose(item, fresh, counters, pending)
        chosen[item.identity.id] = {**of_device, **absences.of(item, of_device)}
    for item in named:
        _drop_card_level(chosen[item.identity.id], chosen.get(item.identity.parent or ""))
    return chosen


def _drop_card_level(values: dict[ReadingKey, Choice], parent: Mapping[ReadingKey, Choice] | None) -> None:
    """Drop a partition's readings of the whole card, such as power, if the card itself has them."""
    if parent is None:
        return
    metrics = {metric for (metric, _), choice in parent.items() if precedence.is_number(choice)}
    for key in [key for key in values if key[0] in metrics and key[0] in BY_KEY and BY_KEY[key[0]].card_level]:
        del values[key]


def _slots(
    named: Iterable[Named], chosen: Mapping[str, Mapping[ReadingKey, Choice]], fresh: Fresh, shapes: _Shapes
) -> Iterator[Slot]:
    for item in named:
        parts = tuple((fresh.number_of[report.source, report.poll], position) for report, position in item.group.parts)
        # A doubted new device may leave no report about the known device itself.
        listings = {
            (sighting.listing.source, sighting.listing.poll) for sighting in item.group.sightings if sighting.parts
        }
        device = _device(item)
        yield Slot(
            device,
            shapes.positions_of(chosen[item.identity.id] if device.up else {}, fresh, (number for number, _ in parts)),
            parts,
            tuple(sorted(fresh.number_of[listing] for listing in listings)),
            item.identity.polls if item.identity.listed_by else 0,
        )


def _device(item: Named) -> MergedDevice:
    identity, device = item.identity, item.group.device
    facts = dict(device.facts)
    if identity.power_kind is not None:
        facts["power_kind"] = identity.power_kind
    return replace(
        lost_device(identity),
        index=device.index if device.index is not None else identity.index,
        driver=device.driver,
        up=device.up,
        simulated=device.simulated,
        facts=tuple(sorted(facts.items())),
        current_model=device.model,
    )


def _is_whole_list(report: SourceReport) -> bool:
    return report.lists_devices and not report.report.is_cut


def lost_device(identity: Identity) -> MergedDevice:
    """Return a device that no source lists any more, from its remembered identity."""
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


def _host(fresh: Fresh, shapes: _Shapes) -> Positions:
    """Return the newest reading of each metric of the host."""
    chosen: dict[ReadingKey, Choice] = {}
    for number in fresh.host:
        shape = fresh.offered[number].shape
        for position in shape.by_device[None]:
            key = shape.columns.keys[position]
            if key[0] in BY_KEY and BY_KEY[key[0]].scope == "host":
                chosen[key] = (shape.ranks[position], 0, 0, number, position)
    return shapes.positions_of(chosen, fresh, fresh.host)


def _positions(fresh: Fresh, named: Iterable[Named]) -> dict[tuple[str, str], tuple[str | None, ...]]:
    ids_of: dict[tuple[str, str], list[str | None]] = {
        (report.source, report.poll): [None] * len(report.report.devices) for report in fresh.reports
    }
    for item in named:
        for report, position in item.group.parts:
            ids_of[(report.source, report.poll)][position] = item.identity.id
    return {key: tuple(ids) for key, ids in ids_of.items()}


def _nameless_problem(group: joining.Group) -> tuple[str, Problem]:
    where = name_of(group.device)
    return group.sightings[0].source, Problem(where, "no identity of its own: another device has the same; left out")


def _slot_order(slot: Slot | MergedDevice) -> DisplayOrder:
    return display_order(slot.device if isinstance(slot, Slot) else slot)


def display_order(device: MergedDevice) -> DisplayOrder:
    """Return the sort key of a device: vendor, then label with numbers compared as numbers, then id."""
    parts = tuple((int(part), "") if part.isdigit() else (-1, part) for part in device.device.split(":"))
    return device.vendor, parts, device.id
