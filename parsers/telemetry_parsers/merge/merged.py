"""Merges the reports of all sources into one view of the node. Pure: the state is passed in and returned."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

from telemetry_parsers.dataclass import dataclass, fields, replace
from telemetry_parsers.merge.arrangement import (
    Arrangement,
    Positions,
    Problems,
    Slot,
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
    """Return the device with these facts and readings."""
    values = list(_VALUES(device))
    values[_FACTS], values[_READINGS] = facts, readings
    return MergedDevice(*values)


# Polls of one source that take turns give few different arrangements, which recur.
_MOST_OTHERS = 7


@dataclass(frozen=True, slots=True)
class Merged:
    """The node's devices, host readings, state, problems and events, with the arrangement and reports behind them."""

    devices: tuple[MergedDevice, ...]
    host: Readings
    state: MergeState
    valid_until: float
    problems: Problems
    arrangement: Arrangement
    fresh: Fresh
    events: tuple[DeviceEvent, ...] = ()
    # Previous arrangements, the newest first.
    previous: tuple[Arrangement, ...] = ()

    @property
    def positions(self) -> Mapping[tuple[str, str], tuple[str | None, ...]]:
        """Return the device ids of each (source, poll) by position, None for a position without a device."""
        return self.arrangement.positions

    def problems_of(self, source: str) -> tuple[Problem, ...]:
        """Return the problems of one source."""
        return tuple(problem for name, problem in self.problems if name == source)

    def shapes(self) -> Iterable[Shape]:
        """Return the shapes of the host's and all devices' readings, for reuse by the next merge."""
        return (self.host.shape, *(slot.readings.shape for slot in self.arrangement.devices if isinstance(slot, Slot)))


def merge(
    reports: Iterable[Offered],
    state: MergeState,
    *,
    now: float,
    wall: float,
    pending_vendors: Collection[str] = (),
    before: Merged | None = None,
) -> Merged:
    """Return the view of the node from every report that has not expired at `now` (monotonic)."""
    fresh, pending = Fresh.of(reports, now), frozenset(pending_vendors)
    arrangements = (before.arrangement, *before.previous) if before is not None else ()
    kept = next((arrangement for arrangement in arrangements if arrangement.holds(fresh, state, wall, pending)), None)
    previous = tuple(
        arrangement for arrangement in arrangements if arrangement is not kept and arrangement.may_hold(state)
    )[:_MOST_OTHERS]
    if kept is None:
        new = arrange(fresh, state, wall, pending, before.shapes() if before is not None else ())
        return replace(_filled(new, fresh, new.after), events=new.events, previous=previous)
    if before is None or kept is not before.arrangement:
        return replace(_filled(kept, fresh, state), previous=previous)
    if fresh.offered == before.fresh.offered:
        return replace(before, state=state, events=())
    return replace(_filled(kept, fresh, state, before), previous=previous)


def _filled(arrangement: Arrangement, fresh: Fresh, state: MergeState, before: Merged | None = None) -> Merged:
    """Return the view with the values of these reports. A device without new values is taken from `before`."""
    row, origins = fresh.row(), fresh.origins()
    old: Sequence[MergedDevice | None] = before.devices if before is not None else (None,) * len(arrangement.devices)
    new = _new_reports(fresh, before)
    devices = []
    for slot, old_device in zip(arrangement.devices, old, strict=True):
        if isinstance(slot, MergedDevice):
            devices.append(slot)
        elif old_device is not None and new.isdisjoint(slot.readings.reports):
            devices.append(old_device)
        else:
            processes = _processes(slot, fresh)
            devices.append(replace(slot.device, readings=_readings(slot.readings, row, origins), processes=processes))
    return Merged(
        devices=tuple(devices),
        host=_readings(arrangement.host, row, origins),
        state=_counted(state, arrangement, fresh),
        valid_until=min((offer.report.expires for offer in fresh.offered), default=math.inf),
        problems=(*arrangement.problems, *_ratio_problems(devices)),
        arrangement=arrangement,
        fresh=fresh,
    )


def _new_reports(fresh: Fresh, before: Merged | None) -> frozenset[int]:
    """Return the numbers of the reports that are not in the previous merge."""
    previous = before.fresh.offered if before is not None else (None,) * len(fresh.offered)
    return frozenset(
        number for number, (offer, old) in enumerate(zip(fresh.offered, previous, strict=True)) if offer is not old
    )


def _readings(positions: Positions, row: Sequence[Value | None], origins: tuple[Origin, ...]) -> Readings:
    return Readings(positions.shape, positions.values(row), origins)


def _processes(slot: Slot, fresh: Fresh) -> tuple[Process, ...]:
    """Return the process list of the most preferred source that has one."""
    for number, position in slot.parts:
        listed = fresh.offered[number].report.report.processes
        if listed and (processes := tuple(process for process in listed if process.device == position)):
            return processes
    return ()


def _counted(state: MergeState, arrangement: Arrangement, fresh: Fresh) -> MergeState:
    """Return the state with the number of lists in which each device was seen, and the time of the newest."""
    seen = {identity.id: state.seen[identity.id] for identity in state.identities if identity.id in state.seen}
    for slot in arrangement.devices:
        if isinstance(slot, Slot):
            polls, last = seen.get(slot.device.id, (slot.polls, -math.inf))
            taken = max((fresh.offered[number].report.taken for number in slot.listings), default=last)
            seen[slot.device.id] = (polls + 1, taken) if taken > last else (polls, last)
    rounded = {device_id: 1 << (polls.bit_length() - 1) for device_id, (polls, _) in seen.items() if polls}
    if all(identity.polls == rounded.get(identity.id, identity.polls) for identity in state.identities):
        return replace(state, seen=seen)
    identities = tuple(
        replace(identity, polls=rounded.get(identity.id, identity.polls)) for identity in state.identities
    )
    return replace(state, seen=seen, identities=identities)


def _ratio_problems(devices: Iterable[MergedDevice]) -> Iterator[tuple[str, Problem]]:
    """Yield a problem for each device for which one capture has more used memory than total memory."""
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
