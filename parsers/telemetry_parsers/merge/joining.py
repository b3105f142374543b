"""Joins sightings of the same device by different sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from telemetry_parsers.combining import (
    ChipFinder,
    canonical_uuid,
    combine_devices,
    has_repeated_index,
    is_same_slot,
    name_of,
    slot_of,
    without_domain,
)
from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.merge.report_columns import newest_lists, preference_key
from telemetry_parsers.model import Device, Problem, SourceReport

FORM_RANK = {"data": 0, "json": 1, "text": 2}


@dataclass(frozen=True, slots=True)
class Sighting:
    """A device in the reports of one source."""

    source: str
    rank: tuple[int, str]
    device: Device
    occurrences: tuple[tuple[SourceReport, int], ...]  # each report of the device, with the device's position in it
    list_report: SourceReport  # the source's newest list, or its preferred report if it never lists devices
    index_space: str
    is_attached: bool = False  # the source never lists devices, like hccn-tool

    @property
    def address(self) -> tuple[str | None, str | None]:
        """Return the bus address and the partition, which together identify a device of a node."""
        return self.device.bus_id, self.device.partition


class _DeviceFinder:
    """Finds a device in one report by address or index."""

    def __init__(self, devices: Sequence[Device], *, indices_repeat: bool) -> None:
        self._indices_repeat = indices_repeat
        self._positions_by_bus: dict[tuple[str, str | None, str | None], int] = {}
        self._positions_by_index_key: dict[tuple[str, int | None, str | None], list[int]] = {}
        self._devices = devices
        for position, device in enumerate(devices):
            if device.bus_id:
                self._positions_by_bus.setdefault((device.vendor, device.bus_id, device.partition), position)
            self._positions_by_index_key.setdefault((device.vendor, *self.index_key(device)), []).append(position)

    def index_key(self, device: Device) -> tuple[int | None, str | None]:
        """Return the index and, if any devices of the source share an index, the partition."""
        return device.index, device.partition if self._indices_repeat else None

    def index_keys(self) -> set[tuple[int | None, str | None]]:
        return {self.index_key(device) for device in self._devices}

    def find(self, device: Device, *, by_index: bool) -> int | None:
        """Return the position in this report of a device from another report, or None if the device is not found."""
        bus_key = (device.vendor, device.bus_id, device.partition)
        by_address = self._positions_by_bus.get(bus_key) if device.bus_id else None
        if not by_index or device.index is None:
            return by_address
        # Devices with different addresses are different, even if their indices are equal.
        candidates = self._positions_by_index_key.get((device.vendor, *self.index_key(device)), ())
        same_index = next(
            (position for position in candidates if not (device.bus_id and self._devices[position].bus_id)), None
        )
        return min((position for position in (by_address, same_index) if position is not None), default=None)


class _NewestList:
    def __init__(self, report: SourceReport, *, indices_repeat: bool) -> None:
        self.report = report
        self.devices = report.report.devices
        self.finder = _DeviceFinder(self.devices, indices_repeat=indices_repeat)
        self.index_keys = self.finder.index_keys()
        self.chips = ChipFinder(self.devices)


class _OtherReport:
    """A report by another poll of the same source."""

    def __init__(self, report: SourceReport, newest_list: _NewestList, *, indices_repeat: bool) -> None:
        self.report = report
        self._newest_list = newest_list
        self._finder = _DeviceFinder(report.report.devices, indices_repeat=indices_repeat)
        self._chips = ChipFinder(report.report.devices)
        # Indices are compared only if both polls list the same indices, because some tools renumber cards after a loss.
        self._has_same_indices = self._finder.index_keys() == newest_list.index_keys
        self._has_comparable_chips = self._chips.is_comparable_with(newest_list.chips)

    def find(self, listed: Device, combined: Device) -> int | None:
        """Return the device's position in the newest list, if any. `combined` also has its fields from other reports."""
        if self._has_comparable_chips:
            return self._chips.find(listed, self._newest_list.chips)
        return self._finder.find(combined, by_index=self._has_same_indices)

    def parent_in_list(self, position: int) -> int | None:
        """Return the position of the device's parent in the newest list, or None if it has no parent there."""
        parent = self.report.report.devices[position].parent
        if parent is None:
            return None
        return self._newest_list.finder.find(self.report.report.devices[parent], by_index=self._has_same_indices)


def _sightings_of(reports: Sequence[SourceReport]) -> list[Sighting]:
    lists = tuple(newest_lists(reports).values())
    if not lists:
        return _attached_sightings(reports)
    indices_repeat = any(has_repeated_index(source_report.report.devices) for source_report in reports)
    newest_list = _NewestList(lists[0], indices_repeat=indices_repeat)
    other_reports = [
        _OtherReport(source_report, newest_list, indices_repeat=indices_repeat)
        for source_report in sorted(reports, key=preference_key)
        if source_report is not newest_list.report
    ]
    return [_create_sighting(newest_list, position, other_reports) for position in range(len(newest_list.devices))]


def _create_sighting(newest_list: _NewestList, position: int, other_reports: Sequence[_OtherReport]) -> Sighting:
    list_report = newest_list.report
    listed_device = device = newest_list.devices[position]
    occurrences = [(list_report, position)]
    for other_report in other_reports:
        position_in_other = other_report.find(listed_device, device)
        if position_in_other is not None:
            occurrences.append((other_report.report, position_in_other))
            parent = other_report.parent_in_list(position_in_other) if device.parent is None else device.parent
            device = combine_devices(device, other_report.report.report.devices[position_in_other])
            # The device is copied only if it changes, which saves time at every poll.
            device = device if device.parent == parent else replace(device, parent=parent)
    if device.up != listed_device.up:
        device = replace(device, up=listed_device.up)  # `up` in other polls may be older
    occurrences[1:] = sorted(occurrences[1:], key=lambda occurrence: _sort_key(occurrence[0]))
    rank = (FORM_RANK[list_report.report.form], list_report.source)
    return Sighting(list_report.source, rank, device, tuple(occurrences), list_report, list_report.report.index_space)


def _sort_key(report: SourceReport) -> tuple[float, float, str]:
    """Return a sort key that prefers short intervals. Among reports with processes, it prefers new ones."""
    # Reports without processes are not sorted by time, because their order would change at almost every poll.
    return report.interval, -report.taken if report.report.processes else 0.0, report.poll


def _attached_sightings(reports: Sequence[SourceReport]) -> list[Sighting]:
    """Return one sighting for each device index. The source of these reports lists no devices."""
    positions_by_index: dict[tuple[str, int], list[tuple[SourceReport, int]]] = {}
    for report in sorted(reports, key=preference_key):
        for position, device in enumerate(report.report.devices):
            if device.index is not None and report.report.index_space:
                positions_by_index.setdefault((report.report.index_space, device.index), []).append((report, position))
    attached_sightings = []
    for (space, _), reports_of_device in positions_by_index.items():
        preferred, position = reports_of_device[0]
        device = preferred.report.devices[position]
        for report, other_position in reports_of_device[1:]:
            device = combine_devices(device, report.report.devices[other_position])
        rank = (FORM_RANK[preferred.report.form], preferred.source)
        attached_sightings.append(
            Sighting(preferred.source, rank, device, tuple(reports_of_device), preferred, space, is_attached=True)
        )
    return attached_sightings


def sightings(reports: Iterable[SourceReport]) -> list[Sighting]:
    """Return the devices that each source reported, preferred sources first."""
    by_source: dict[str, list[SourceReport]] = {}
    for report in reports:
        by_source.setdefault(report.source, []).append(report)
    unordered = [sighting for source_reports in by_source.values() for sighting in _sightings_of(source_reports)]
    return sorted(unordered, key=lambda sighting: (sighting.is_attached, sighting.rank))


_MAX_NAMES = 4


@dataclass(slots=True, eq=False)
class SightingGroup:
    """The sightings of one device by different sources, in order of preference."""

    vendor: str
    sightings: list[Sighting] = field(default_factory=list)
    device: Device = field(default_factory=lambda: Device(""))

    @property
    def occurrences(self) -> Iterator[tuple[SourceReport, int]]:
        """Yield each report of the device, with the device's position in the report."""
        return (occurrence for sighting in self.sightings for occurrence in sighting.occurrences)

    def add(self, sighting: Sighting) -> None:
        """Add a sighting by another source, and fill in unknown fields of the device from it."""
        self.device = combine_devices(self.device, sighting.device) if self.sightings else sighting.device
        self.sightings.append(sighting)


@dataclass(frozen=True, slots=True)
class JoinedSightings:
    """All devices of the node, and the problems with ambiguous sightings."""

    groups: tuple[SightingGroup, ...]
    problems: tuple[tuple[str, Problem], ...]


class _Joiner:
    """Adds each sighting to the group with the same address or UUID."""

    def __init__(self, sightings: Sequence[Sighting]) -> None:
        self.groups: list[SightingGroup] = []
        self.problems: list[tuple[str, Problem]] = []
        self._by_key: dict[tuple[str | None, ...], list[SightingGroup]] = {}
        self._uuid_counts = Counter(
            (sighting.source, sighting.device.vendor, canonical_uuid(sighting.device.uuid)) for sighting in sightings
        )

    def add(self, sighting: Sighting) -> None:
        candidates = self._candidates(sighting)
        if len(candidates) == 1:
            group = candidates[0]
        elif sighting.is_attached:
            return  # an attached source only describes devices that other sources list
        else:
            if candidates:
                self.problems.append((sighting.source, Problem(name_of(sighting.device), _ambiguity_text(candidates))))
            group = SightingGroup(sighting.device.vendor)
            self.groups.append(group)
        group.add(sighting)
        for key in (self._bus_key(group.device.bus_id, group.device), self._uuid_key(sighting)):
            if key is not None and group not in self._by_key.setdefault(key, []):
                self._by_key[key].append(group)

    def _candidates(self, sighting: Sighting) -> list[SightingGroup]:
        """Return the groups with the sighting's address, or else those with its UUID and no other known address."""
        device = sighting.device
        if device.bus_id:
            by_bus = [
                group
                for group in self._groups_without_source(sighting, self._bus_key(device.bus_id, device))
                if is_same_slot(
                    slot_of(group.device.bus_id or "", device.partition), slot_of(device.bus_id, device.partition)
                )
            ]
            if by_bus:
                return by_bus
        return [
            group
            for group in self._groups_without_source(sighting, self._uuid_key(sighting))
            if not (group.device.bus_id and device.bus_id)
        ]

    def _groups_without_source(self, sighting: Sighting, key: tuple[str | None, ...] | None) -> list[SightingGroup]:
        if key is None:
            return []
        return [
            group
            for group in self._by_key.get(key, ())
            if all(other.source != sighting.source for other in group.sightings)
        ]

    def _bus_key(self, bus_id: str | None, device: Device) -> tuple[str | None, ...] | None:
        if not bus_id:
            return None
        return ("bus", device.vendor, without_domain(slot_of(bus_id, device.partition)), device.partition)

    def _uuid_key(self, sighting: Sighting) -> tuple[str | None, ...] | None:
        """Return a key with the UUID, or None if the UUID is missing or the source reports it for several devices."""
        device = sighting.device
        uuid = canonical_uuid(device.uuid)
        if uuid is None or self._uuid_counts[(sighting.source, device.vendor, uuid)] > 1:
            return None
        return ("uuid", device.vendor, uuid, device.partition)


def _ambiguity_text(candidates: Sequence[SightingGroup]) -> str:
    names = ", ".join(name_of(group.device) for group in candidates[:_MAX_NAMES])
    rest_text = f" and {len(candidates) - _MAX_NAMES} more" if len(candidates) > _MAX_NAMES else ""
    return f"the device could be any of {names}{rest_text}, so it is shown separately"


def join(sightings: Sequence[Sighting]) -> JoinedSightings:
    """Group the sightings with the same bus address or the same unique UUID."""
    joiner = _Joiner(sightings)
    for sighting in sightings:
        joiner.add(sighting)
    return JoinedSightings(tuple(joiner.groups), tuple(joiner.problems))
