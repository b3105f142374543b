"""Which devices there are and where each reading of theirs stands: all of a merge but its numbers and times."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from telemetry_parsers.combining import name_of
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
class Place:
    """Where the readings of a device, or of the host, stand: the `values` of the row of all reports are those of the `shape`.

    `reports` are the numbers of all reports that speak of the device.
    """

    shape: Shape
    values: Callable[[Sequence[Value | None]], tuple[Value, ...]]
    reports: frozenset[int]


@dataclass(frozen=True, slots=True)
class Seat:
    """A listed device without its readings, where these are, and what else its reports say of it.

    `parts` are its positions in the reports, the most preferred first. `listings` are the newest lists that have it, and `polls`
    how many had it before this process knew it.
    """

    device: MergedDevice
    place: Place
    parts: tuple[tuple[int, int], ...]
    listings: tuple[int, ...]
    polls: int


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The devices in order, and what was remembered before and after they were found.

    `holds_until` is the time of day at which a lost device is forgotten.
    """

    shape: object
    pending: frozenset[str]
    before: MergeState
    after: MergeState
    holds_until: float
    devices: tuple[Seat | MergedDevice, ...]
    host: Place
    problems: Problems
    events: tuple[DeviceEvent, ...]
    positions: Mapping[tuple[str, str], tuple[str | None, ...]]

    def may_hold(self, state: MergeState) -> bool:
        """Whether it was made from this memory and has left it as it was: else it will not come again."""
        return state.is_as(self.before) and self.after.is_as(self.before)

    def holds(self, fresh: Fresh, state: MergeState, wall: float, pending: frozenset[str]) -> bool:
        """Whether the same steps with these reports and this memory would give the same arrangement.

        They do where only numbers are new, and where the last time has left the memory as it was.
        """
        return (
            self.may_hold(state) and wall < self.holds_until and pending == self.pending and fresh.shape() == self.shape
        )


def arrange(
    fresh: Fresh, state: MergeState, wall: float, pending: frozenset[str], known: Iterable[Shape] = ()
) -> Arrangement:
    """The devices of the node from the lists of all reports, and the reading of each metric that counts.

    `known` shapes are used again where they fit.
    """
    recalled = numbering.recall(sightings(fresh.reports), fresh.reports, state.learnt)
    joined = joining.join(recalled.sightings)
    naming = identity.name(joined.groups, state, pending)
    named, weighed = naming.named, naming.weighed
    # Before the first inventory is over, another source of the vendor may still list what this one lacks.
    listing = {one.source for one in fresh.reports if _is_whole_list(one) and one.vendor not in pending}
    numbering_sources = numbering.numbers_only(recalled.sightings)
    present = presence.update(state, named, listing.difference(recalled.unmatched), numbering_sources, wall)
    counters = dict(state.counters)
    chosen = _chosen(named, fresh, counters, pending)
    shapes = _Shapes(known)
    believed = [weighed.doubts[id(group)].group if id(group) in weighed.doubts else group for group in joined.groups]
    after = MergeState(
        identities=present.identities,
        seen=state.seen,
        doubts=weighed.remembered,
        forgotten=present.forgotten,
        learnt=numbering.remember(recalled.learnt, numbering.learn(believed)),
        counters=precedence.remember(counters, {one.id for one in present.identities}, chosen.items()),
    )
    return Arrangement(
        shape=fresh.shape(),
        pending=pending,
        before=state,
        after=after.or_equal(state),
        holds_until=min(
            (one.lost_since + presence.FORGET_AFTER_SECONDS for one in present.lost if one.lost_since), default=math.inf
        ),
        devices=tuple(
            sorted((*_seats(named, chosen, fresh, shapes), *map(lost_device, present.lost)), key=_seat_order)
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
    """Gives the same shape for the same readings: most devices of a node have one in common."""

    def __init__(self, known: Iterable[Shape]) -> None:
        self._known = {(shape.keys, shape.origins): shape for shape in known}

    def place(self, chosen: Mapping[ReadingKey, Choice], fresh: Fresh, reports: Iterable[int]) -> Place:
        """Where the chosen readings stand."""
        keys, origins = tuple(chosen), tuple(choice[-2] for choice in chosen.values())
        shape = self._known.setdefault((keys, origins), Shape(keys, origins))
        row = [place if place == NOWHERE else fresh.offsets[number] + place for *_, number, place in chosen.values()]
        return Place(shape, _getter(row), frozenset(reports))


def _getter(row: Sequence[int]) -> Callable[[Sequence[Value | None]], tuple[Value, ...]]:
    """What takes the values at these places out of a row, as a tuple also of one or none."""
    if len(row) > 1:
        return itemgetter(*row)
    return lambda values: tuple(value for place in row if (value := values[place]) is not None)


def _chosen(
    named: Iterable[Named],
    fresh: Fresh,
    counters: MutableMapping[tuple[str, str, str], str],
    pending: frozenset[str],
) -> dict[str, dict[ReadingKey, Choice]]:
    """By the id of each device that is up: where each of its readings is."""
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
    """Drops a partition's readings that belong to the whole card, such as power, if the card has them itself."""
    if parent is None:
        return
    metrics = {metric for (metric, _), choice in parent.items() if precedence.is_number(choice)}
    for key in [key for key in values if key[0] in metrics and key[0] in BY_KEY and BY_KEY[key[0]].card_level]:
        del values[key]


def _seats(
    named: Iterable[Named], chosen: Mapping[str, Mapping[ReadingKey, Choice]], fresh: Fresh, shapes: _Shapes
) -> Iterator[Seat]:
    for item in named:
        parts = tuple((fresh.number_of[one.source, one.poll], position) for one, position in item.group.parts)
        # A doubted newcomer may leave no part that speaks of the device itself.
        listings = {(one.listing.source, one.listing.poll) for one in item.group.sightings if one.parts}
        device = _device(item)
        yield Seat(
            device,
            shapes.place(chosen[item.identity.id] if device.up else {}, fresh, (number for number, _ in parts)),
            parts,
            tuple(sorted(fresh.number_of[one] for one in listings)),
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
    """A device that nobody lists any more, from what is remembered of it."""
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


def _host(fresh: Fresh, shapes: _Shapes) -> Place:
    """The newest reading of each metric of the host."""
    chosen: dict[ReadingKey, Choice] = {}
    for number in fresh.host:
        shape = fresh.offered[number].shape
        for place in shape.by_device[None]:
            key = shape.columns.keys[place]
            if key[0] in BY_KEY and BY_KEY[key[0]].scope == "host":
                chosen[key] = (shape.tellings[place], 0, 0, number, place)
    return shapes.place(chosen, fresh, fresh.host)


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


def _seat_order(seat: Seat | MergedDevice) -> DisplayOrder:
    return display_order(seat.device if isinstance(seat, Seat) else seat)


def display_order(device: MergedDevice) -> DisplayOrder:
    """By vendor, then by device label with its numbers read as numbers, then by id."""
    parts = tuple((int(part), "") if part.isdigit() else (-1, part) for part in device.device.split(":"))
    return device.vendor, parts, device.id
