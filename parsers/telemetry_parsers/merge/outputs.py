"""Several outputs of one tool on one node, as one report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from telemetry_parsers.merge.joining import canonical_uuid, combine
from telemetry_parsers.model import Absent, Device, Event, Process, Reading, Report

# When outputs disagree, the report is what the best of them is.
_BEST_FIRST = ("ok", "no_devices", "failed", "wrong_request", "not_mine")


def combine_reports(reports: Sequence[Report]) -> Report:
    """One report: the same device of several outputs once, the first number of each reading."""
    best = min(reports, key=lambda report: _BEST_FIRST.index(report.outcome))
    devices: list[Device] = []
    readings: dict[tuple[int | None, str, str], Reading] = {}
    events: list[Event] = []
    processes: dict[tuple[int, int], Process] = {}
    for report in reports:
        places = [_place(devices, device) for device in report.devices]
        _link_parents(devices, report.devices, places)
        for reading in report.readings:
            _keep_first_number(readings, replace(reading, device=_moved(places, reading.device)))
        events += [replace(event, device=_moved(places, event.device)) for event in report.events]
        for process in report.processes:
            place = places[process.device]
            processes.setdefault((place, process.pid), replace(process, device=place))
    return replace(
        best,
        devices=tuple(devices),
        readings=tuple(readings.values()),
        events=tuple(events),
        processes=tuple(processes.values()),
        problems=tuple(problem for report in reports for problem in report.problems),
        unknown_fields=tuple(sorted({field for report in reports for field in report.unknown_fields})),
        facts=tuple(sorted({key: value for report in reversed(reports) for key, value in report.facts}.items())),
    )


def _same(first: Device, second: Device) -> bool:
    """Whether two outputs of one tool speak of one device."""
    if first.vendor != second.vendor or first.partition != second.partition:
        return False
    if first.bus_id and second.bus_id:
        return first.bus_id == second.bus_id
    uuids = canonical_uuid(first.uuid), canonical_uuid(second.uuid)
    if None not in uuids and first.index is None:
        return uuids[0] == uuids[1]
    return first.index is not None and first.index == second.index


def _place(devices: list[Device], device: Device) -> int:
    """The position of the device among those known, to which it is added when new."""
    unlinked = replace(device, parent=None)
    for position, known in enumerate(devices):
        if _same(known, device):
            devices[position] = combine(known, unlinked)
            return position
    devices.append(unlinked)
    return len(devices) - 1


def _link_parents(devices: list[Device], told: Sequence[Device], places: Sequence[int]) -> None:
    for device, place in zip(told, places, strict=True):
        if device.parent is not None and devices[place].parent is None:
            devices[place] = replace(devices[place], parent=places[device.parent])


def _moved(places: Sequence[int], position: int | None) -> int | None:
    return None if position is None else places[position]


def _keep_first_number(readings: dict[tuple[int | None, str, str], Reading], reading: Reading) -> None:
    key = (reading.device, reading.metric, reading.label)
    known = readings.get(key)
    if known is None or (isinstance(known.value, Absent) and not isinstance(reading.value, Absent)):
        readings[key] = reading
