"""Merges the reports of all sources into one view of the node."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

from telemetry_parsers.dataclass import dataclass, fields, replace
from telemetry_parsers.merge.arrangement import (
    ArrangedDevice,
    Arrangement,
    Problems,
    ReadingPositions,
    absent_device,
    arrange,
    display_order,
)
from telemetry_parsers.merge.merge_state import MergeState
from telemetry_parsers.merge.presence import DeviceEvent
from telemetry_parsers.merge.report_columns import MEMORY_RATIO, RATIO_INPUTS, CheckedReport, FreshReports
from telemetry_parsers.model import Absent, Identity, MergedDevice, Problem, Process, Value
from telemetry_parsers.readings import Origin, Readings, Shape

_FIELD_NAMES = [field.name for field in fields(MergedDevice)]
_get_values = attrgetter(*_FIELD_NAMES)
_FACTS_INDEX, _READINGS_INDEX = _FIELD_NAMES.index("facts"), _FIELD_NAMES.index("readings")


def with_readings(device: MergedDevice, facts: tuple[tuple[str, str], ...], readings: Readings) -> MergedDevice:
    """Return a copy of the device with these facts and readings."""
    values = list(_get_values(device))
    values[_FACTS_INDEX], values[_READINGS_INDEX] = facts, readings
    return MergedDevice(*values)


@dataclass(frozen=True, slots=True)
class MergedNode:
    """The node's devices and readings, and the reports from which they were merged."""

    devices: tuple[MergedDevice, ...]
    host: Readings
    state: MergeState
    valid_until: float
    problems: Problems
    arrangement: Arrangement
    fresh: FreshReports
    events: tuple[DeviceEvent, ...] = ()

    @property
    def device_ids(self) -> Mapping[tuple[str, str], tuple[str | None, ...]]:
        """Map each (source, poll) to the device ids in its report. The ids of unpublished devices are None."""
        return self.arrangement.device_ids

    def problems_of(self, source: str) -> tuple[Problem, ...]:
        """Return the problems with this source's reports."""
        return tuple(problem for name, problem in self.problems if name == source)

    def shapes(self) -> Iterable[Shape]:
        """Return the shape of the host's readings, and of each listed device's readings."""
        return (
            self.host.shape,
            *(entry.readings.shape for entry in self.arrangement.devices if isinstance(entry, ArrangedDevice)),
        )


def merge(
    reports: Iterable[CheckedReport],
    state: MergeState,
    *,
    now: float,
    wall_time: float,
    pending_vendors: Collection[str] = (),
    previous: MergedNode | None = None,
) -> MergedNode:
    """Merge all reports that have not expired at the monotonic time `now`. Reuse unchanged parts of `previous`."""
    fresh, pending = FreshReports.from_reports(reports, now), frozenset(pending_vendors)
    if previous is None or not previous.arrangement.is_valid_for(fresh, state, wall_time, pending):
        arrangement = arrange(fresh, state, wall_time, pending, previous.shapes() if previous is not None else ())
        return replace(_with_values(arrangement, fresh, arrangement.state_after), events=arrangement.events)
    if fresh.reports == previous.fresh.reports:
        return replace(previous, state=state, events=())
    return _with_values(previous.arrangement, fresh, state, previous)


def _with_values(
    arrangement: Arrangement, fresh: FreshReports, state: MergeState, previous: MergedNode | None = None
) -> MergedNode:
    row, origins = fresh.row(), fresh.origins()
    old_devices: Sequence[MergedDevice | None] = previous.devices if previous else (None,) * len(arrangement.devices)
    new_reports = _new_reports(fresh, previous)
    devices = []
    for entry, old_device in zip(arrangement.devices, old_devices, strict=True):
        if isinstance(entry, MergedDevice):
            devices.append(entry)
        elif old_device is not None and new_reports.isdisjoint(entry.readings.report_indices):
            devices.append(old_device)
        else:
            processes = _processes_of(entry, fresh)
            readings = _create_readings(entry.readings, row, origins)
            devices.append(replace(entry.device, readings=readings, processes=processes))
    return MergedNode(
        devices=tuple(devices),
        host=_create_readings(arrangement.host, row, origins),
        state=_with_poll_counts(state, arrangement, fresh),
        valid_until=min((checked.report.expires for checked in fresh.reports), default=math.inf),
        problems=(*arrangement.problems, *_ratio_problems(devices)),
        arrangement=arrangement,
        fresh=fresh,
    )


def _new_reports(fresh: FreshReports, previous: MergedNode | None) -> frozenset[int]:
    previous_reports = previous.fresh.reports if previous is not None else (None,) * len(fresh.reports)
    return frozenset(
        report_index
        for report_index, (checked, old_report) in enumerate(zip(fresh.reports, previous_reports, strict=True))
        if checked is not old_report
    )


def _create_readings(positions: ReadingPositions, row: Sequence[Value | None], origins: tuple[Origin, ...]) -> Readings:
    return Readings(positions.shape, positions.select_values(row), origins)


def _processes_of(arranged_device: ArrangedDevice, fresh: FreshReports) -> tuple[Process, ...]:
    for report_index, device_position in arranged_device.report_positions:
        source_report = fresh.reports[report_index].report
        if processes := tuple(item for item in source_report.report.processes if item.device == device_position):
            return processes
    return ()


def _with_poll_counts(state: MergeState, arrangement: Arrangement, fresh: FreshReports) -> MergeState:
    remembered_ids = {identity.id for identity in state.identities}
    list_history = {key: history for key, history in state.list_history.items() if key in remembered_ids}
    for entry in arrangement.devices:
        if isinstance(entry, ArrangedDevice):
            polls, newest_time = list_history.get(entry.device.id, (entry.polls, -math.inf))
            list_time = max((fresh.reports[index].report.taken for index in entry.list_indices), default=newest_time)
            polls += list_time > newest_time
            list_history[entry.device.id] = (polls, max(list_time, newest_time))
    rounded_polls = {key: 1 << (polls.bit_length() - 1) for key, (polls, _) in list_history.items() if polls}
    if all(identity.polls == rounded_polls.get(identity.id, identity.polls) for identity in state.identities):
        return replace(state, list_history=list_history)
    identities = tuple(
        replace(identity, polls=rounded_polls.get(identity.id, identity.polls)) for identity in state.identities
    )
    return replace(state, list_history=list_history, identities=identities)


def _ratio_problems(devices: Iterable[MergedDevice]) -> Iterator[tuple[str, Problem]]:
    """Yield a problem for each device whose used memory exceeds its total memory."""
    for device in devices:
        readings = device.readings
        if not isinstance(readings, Readings) or readings.value(*MEMORY_RATIO) is not Absent.IMPLAUSIBLE:
            continue
        used, total = (readings.find(*key) for key in RATIO_INPUTS)
        if used is None or total is None:
            continue
        (used_bytes, origin), (total_bytes, total_origin) = used, total
        if isinstance(used_bytes, Absent) or isinstance(total_bytes, Absent) or origin != total_origin:
            continue
        if used_bytes > total_bytes:
            text = f"used memory ({used_bytes:.0f} B) is greater than total memory ({total_bytes:.0f} B)"
            yield origin.source, Problem(f"{device.vendor} {device.device}", text)


def include_unread(
    devices: Iterable[MergedDevice], unread: Iterable[tuple[Identity, float | None]]
) -> tuple[MergedDevice, ...]:
    """Add the devices whose sources fail, each with the time when it was last listed."""
    unread_devices = (replace(absent_device(identity), up=None, last_read=last_read) for identity, last_read in unread)
    return tuple(sorted((*devices, *unread_devices), key=display_order))
