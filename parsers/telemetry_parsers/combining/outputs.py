"""Several outputs of one tool on one node, as one report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from telemetry_parsers.combining.chip_places import ChipPlaces, chip_place_of
from telemetry_parsers.combining.devices import canonical_uuid, combine, repeats_an_index
from telemetry_parsers.model import Absent, Device, Event, Process, Reading, Report

# When the outputs' outcomes differ, the report has the best of them.
_BEST_FIRST = ("ok", "no_devices", "failed", "wrong_request", "not_mine")


def combine_reports(reports: Sequence[Report]) -> Report:
    """One report: the same device of several outputs once, the first number of each reading."""
    if len(reports) == 1:
        return reports[0]
    by_partition = any(repeats_an_index(report.devices) for report in reports)
    best = min(reports, key=lambda report: _BEST_FIRST.index(report.outcome))
    devices: list[Device] = []
    readings: dict[tuple[int | None, str, str], Reading] = {}
    events: list[Event] = []
    processes: list[Process] = []
    for report in reports:
        positions = _positions(devices, report.devices, by_partition=by_partition)
        for reading in report.readings:
            _keep_first_number(readings, replace(reading, device=_moved(positions, reading.device)))
        events += [replace(event, device=_moved(positions, event.device)) for event in report.events]
        listed = {process.device for process in processes}
        moved = [replace(process, device=positions[process.device]) for process in report.processes]
        processes += [process for process in moved if process.device not in listed]
    return replace(
        best,
        devices=tuple(devices),
        readings=tuple(readings.values()),
        events=tuple(events),
        processes=tuple(processes),
        problems=tuple(dict.fromkeys(problem for report in reports for problem in report.problems)),
        unknown_fields=tuple(dict.fromkeys(field for report in reports for field in report.unknown_fields)),
        is_cut=any(report.is_cut for report in reports),
        facts=tuple(sorted({key: value for report in reversed(reports) for key, value in report.facts}.items())),
    )


def _same(first: Device, second: Device, *, by_partition: bool) -> bool:
    """Whether two devices without a common chip place are one: they agree in index and partition, and contradict nothing.

    A partition may be missing from one of them, if each partition has an index of its own.
    """
    if first.vendor != second.vendor or first.index != second.index:
        return False
    untold = None in (first.partition, second.partition) and not by_partition
    if first.partition != second.partition and not untold:
        return False
    if chip_place_of(first) is not None and chip_place_of(second) is not None:
        return False
    return _agree(first, second) and (first.index is not None or bool(_identities_of_both(first, second)))


def _agree(first: Device, second: Device) -> bool:
    """Whether the devices have the same address, uuid and serial, as far as both give them."""
    return all(one == other for one, other in _identities_of_both(first, second))


def _identities_of_both(first: Device, second: Device) -> list[tuple[str, str]]:
    identities = [
        (first.bus_id, second.bus_id),
        (canonical_uuid(first.uuid), canonical_uuid(second.uuid)),
        (first.serial, second.serial),
    ]
    return [(one, other) for one, other in identities if one is not None and other is not None]


def _positions(devices: list[Device], added: Sequence[Device], *, by_partition: bool) -> list[int]:
    """The positions of the added devices in `devices`, to which those that are new are appended."""
    earlier_count = len(devices)
    earlier_places, added_places = ChipPlaces(devices), ChipPlaces(added)
    positions = []
    for device in added:
        unlinked = replace(device, parent=None)
        position = earlier_places.find(device, added_places)
        if position is None or not _agree(devices[position], device):
            same = (at for at in range(earlier_count) if _same(devices[at], device, by_partition=by_partition))
            position = next(same, None)
        if position is None:
            position = len(devices)
            devices.append(unlinked)
        else:
            devices[position] = combine(devices[position], unlinked)
        positions.append(position)
    for device, position in zip(added, positions, strict=True):
        if device.parent is not None and devices[position].parent is None:
            devices[position] = replace(devices[position], parent=positions[device.parent])
    return positions


def _moved(positions: Sequence[int], position: int | None) -> int | None:
    return None if position is None else positions[position]


def _keep_first_number(readings: dict[tuple[int | None, str, str], Reading], reading: Reading) -> None:
    key = (reading.device, reading.metric, reading.label)
    known = readings.get(key)
    if known is None or (isinstance(known.value, Absent) and not isinstance(reading.value, Absent)):
        readings[key] = reading
