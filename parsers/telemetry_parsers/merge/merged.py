"""The reports of all sources as one picture of the node. It is pure: the state goes in and comes out."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from operator import attrgetter

from telemetry_parsers.merge.arrangement import (
    Arrangement,
    Place,
    Problems,
    Seat,
    arrange,
    display_order,
    lost_device,
)
from telemetry_parsers.merge.memory import MergeState
from telemetry_parsers.merge.presence import DeviceEvent
from telemetry_parsers.merge.report_columns import RATIO, RATIO_OF, Fresh, Offered
from telemetry_parsers.model import Absent, Identity, MergedDevice, Problem, Process, Value
from telemetry_parsers.readings import Origin, Readings, Shape

_NAMES = [field.name for field in fields(MergedDevice)]
_VALUES = attrgetter(*_NAMES)
_FACTS, _READINGS = _NAMES.index("facts"), _NAMES.index("readings")


def rebuilt(device: MergedDevice, facts: tuple[tuple[str, str], ...], readings: Readings) -> MergedDevice:
    """The same device with these."""
    values = list(_VALUES(device))
    values[_FACTS], values[_READINGS] = facts, readings
    return MergedDevice(*values)


# Polls of one source that take turns come in a few orders again and again.
_MOST_OTHERS = 7


@dataclass(frozen=True, slots=True)
class Merged:
    """The node's devices and host readings, the state to remember, problems and events; and what it was made of."""

    devices: tuple[MergedDevice, ...]
    host: Readings
    state: MergeState
    valid_until: float
    problems: Problems
    arrangement: Arrangement
    fresh: Fresh
    events: tuple[DeviceEvent, ...] = ()
    # The arrangements before, the newest first.
    others: tuple[Arrangement, ...] = ()

    @property
    def positions(self) -> Mapping[tuple[str, str], tuple[str | None, ...]]:
        """The id of each device of each (source, poll), None for a device without one."""
        return self.arrangement.positions

    def problems_of(self, source: str) -> tuple[Problem, ...]:
        """The problems of one source."""
        return tuple(problem for name, problem in self.problems if name == source)

    def shapes(self) -> Iterable[Shape]:
        """The shapes of all its readings."""
        return (self.host.shape, *(seat.place.shape for seat in self.arrangement.devices if isinstance(seat, Seat)))


def merge(
    reports: Iterable[Offered],
    state: MergeState,
    *,
    now: float,
    wall: float,
    pending_vendors: Collection[str] = (),
    before: Merged | None = None,
) -> Merged:
    """One picture of the node from every report that has not expired at `now` (monotonic).

    First the devices are arranged: which there are, what they are called, which reading counts. Then numbers are put in. An
    arrangement of the merges `before` is kept as long as it would come out the same.
    """
    fresh, pending = Fresh.of(reports, now), frozenset(pending_vendors)
    known = (before.arrangement, *before.others) if before is not None else ()
    kept = next((one for one in known if one.holds(fresh, state, wall, pending)), None)
    others = tuple(one for one in known if one is not kept and one.may_hold(state))[:_MOST_OTHERS]
    if kept is None:
        new = arrange(fresh, state, wall, pending, before.shapes() if before is not None else ())
        return replace(_filled(new, fresh, new.after), events=new.events, others=others)
    if before is None or kept is not before.arrangement:
        return replace(_filled(kept, fresh, state), others=others)
    if fresh.offered == before.fresh.offered:
        return replace(before, state=state, events=())
    return replace(_filled(kept, fresh, state, before), others=others)


def _filled(arrangement: Arrangement, fresh: Fresh, state: MergeState, before: Merged | None = None) -> Merged:
    """The picture with the numbers of these reports; a device of which nothing is new stays as it was `before`, so arranged."""
    row, origins = fresh.row(), fresh.origins()
    old: Sequence[MergedDevice | None] = before.devices if before is not None else (None,) * len(arrangement.devices)
    new = _new_reports(fresh, before)
    devices = []
    for seat, old_device in zip(arrangement.devices, old, strict=True):
        if isinstance(seat, MergedDevice):
            devices.append(seat)
        elif old_device is not None and new.isdisjoint(seat.place.reports):
            devices.append(old_device)
        else:
            processes = _processes(seat, fresh)
            devices.append(replace(seat.device, readings=_readings(seat.place, row, origins), processes=processes))
    return Merged(
        devices=tuple(devices),
        host=_readings(arrangement.host, row, origins),
        state=_counted(state, arrangement, fresh),
        valid_until=min((one.report.expires for one in fresh.offered), default=math.inf),
        problems=(*arrangement.problems, *_ratio_problems(devices)),
        arrangement=arrangement,
        fresh=fresh,
    )


def _new_reports(fresh: Fresh, before: Merged | None) -> frozenset[int]:
    """The numbers of the reports that the merge before did not have."""
    known = before.fresh.offered if before is not None else (None,) * len(fresh.offered)
    return frozenset(
        number for number, (one, old) in enumerate(zip(fresh.offered, known, strict=True)) if one is not old
    )


def _readings(place: Place, row: Sequence[Value | None], origins: tuple[Origin, ...]) -> Readings:
    return Readings(place.shape, place.values(row), origins)


def _processes(seat: Seat, fresh: Fresh) -> tuple[Process, ...]:
    """The process list of the most preferred source that has one."""
    for number, position in seat.parts:
        listed = fresh.offered[number].report.report.processes
        if listed and (processes := tuple(process for process in listed if process.device == position)):
            return processes
    return ()


def _counted(state: MergeState, arrangement: Arrangement, fresh: Fresh) -> MergeState:
    """The memory with the number of lists in which each device was seen, and when the newest of them was taken."""
    seen = {one.id: state.seen[one.id] for one in state.identities if one.id in state.seen}
    for seat in arrangement.devices:
        if isinstance(seat, Seat):
            polls, last = seen.get(seat.device.id, (seat.polls, -math.inf))
            taken = max((fresh.offered[number].report.taken for number in seat.listings), default=last)
            seen[seat.device.id] = (polls + 1, taken) if taken > last else (polls, last)
    rounded = {known: 1 << (polls.bit_length() - 1) for known, (polls, _) in seen.items() if polls}
    if all(one.polls == rounded.get(one.id, one.polls) for one in state.identities):
        return replace(state, seen=seen)
    identities = tuple(replace(one, polls=rounded.get(one.id, one.polls)) for one in state.identities)
    return replace(state, seen=seen, identities=identities)


def _ratio_problems(devices: Iterable[MergedDevice]) -> Iterator[tuple[str, Problem]]:
    """A problem for each device of which one capture says that more memory is used than there is."""
    for device in devices:
        readings = device.readings
        if not isinstance(readings, Readings) or readings.value(*RATIO) is not Absent.IMPLAUSIBLE:
            continue
        used, total = (readings.find(*key) for key in RATIO_OF)
        if used is None or total is None or used[1] != total[1]:
            continue
        if isinstance(used[0], Absent) or isinstance(total[0], Absent) or used[0] <= total[0]:
            continue
        text = f"memory used ({used[0]:.0f} B) is above the total ({total[0]:.0f} B)"
        yield used[1].source, Problem(f"{device.vendor} {device.device}", text)


def with_unread(
    devices: Iterable[MergedDevice], unread: Iterable[tuple[Identity, float | None]]
) -> tuple[MergedDevice, ...]:
    """Return the devices and the remembered devices whose sources fail, each with its last list's time, in order."""
    more = (replace(lost_device(identity), up=None, last_read=last_read) for identity, last_read in unread)
    return tuple(sorted((*devices, *more), key=display_order))
