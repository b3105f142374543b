"""One device however many sources and polls see it: reports in, groups of sightings out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from telemetry_parsers.merge.seats import Seating
from telemetry_parsers.model import Device, Problem, SourceReport

FORM_RANK = {"data": 0, "json": 1, "text": 2}
_PLACEHOLDER_CHARACTERS = frozenset("0xfn/a- ")


@dataclass(frozen=True, slots=True)
class Sighting:
    """A device as one source tells it, over all the source's fresh polls.

    `parts` are the reports that speak of it, each with the device's position in it. An `attached` sighting is of a
    source that lists no devices: it speaks of those that others list.
    """

    source: str
    rank: tuple[int, str]
    device: Device
    parts: tuple[tuple[SourceReport, int], ...]
    listing: SourceReport
    index_space: str
    attached: bool = False

    @property
    def address(self) -> tuple[str | None, str | None]:
        """Bus address and partition, which together name one device of a node."""
        return self.device.bus_id, self.device.partition


@dataclass(slots=True, eq=False)
class Group:
    """The sightings that are one device; the most preferred source comes first."""

    vendor: str
    sightings: list[Sighting] = field(default_factory=list)
    device: Device = field(default_factory=lambda: Device(""))

    def add(self, sighting: Sighting) -> None:
        """Take one more source's sighting in; it fills what is still unknown."""
        self.device = combine(self.device, sighting.device) if self.sightings else sighting.device
        self.sightings.append(sighting)


@dataclass(frozen=True, slots=True)
class Joined:
    """All devices of the node, and what could not be joined."""

    groups: tuple[Group, ...]
    problems: tuple[tuple[str, Problem], ...]


def canonical_uuid(text: str | None) -> str | None:
    """A uuid in the form in which sources can be compared, None for a placeholder."""
    if text is None:
        return None
    bare = text.strip().lower().removeprefix("gpu-").removeprefix("0x")
    if set(bare) <= _PLACEHOLDER_CHARACTERS or len(bare) < 4:
        return None
    return bare


def combine(first: Device, second: Device) -> Device:
    """The first device with what only the second knows filled in."""
    facts = first.facts
    if second.facts:
        facts = tuple(sorted({**dict(second.facts), **dict(first.facts)}.items()))
    bus_id = first.bus_id
    if bus_id is None or (second.bus_id is not None and second.bus_id.endswith(bus_id)):
        bus_id = second.bus_id or bus_id
    return Device(
        vendor=first.vendor,
        index=second.index if first.index is None else first.index,
        model=first.model or second.model,
        uuid=first.uuid or second.uuid,
        bus_id=bus_id,
        partition=second.partition if first.partition is None else first.partition,
        parent=first.parent,
        serial=first.serial or second.serial,
        driver=first.driver or second.driver,
        up=first.up or second.up,
        simulated=first.simulated or second.simulated,
        facts=facts,
    )


def repeats_an_index(devices: Sequence[Device]) -> bool:
    """Whether one number stands for several devices, as for a card and its partitions; else the number is enough."""
    told = [device.index for device in devices if device.index is not None]
    return len(set(told)) < len(told)


class _Finder:
    """Finds the devices of one report; of several that would do, the first."""

    def __init__(self, devices: Sequence[Device], *, by_partition: bool) -> None:
        self._by_partition = by_partition
        self._by_bus: dict[tuple[str, str | None, str | None], int] = {}
        self._by_slot: dict[tuple[str, int | None, str | None], list[int]] = {}
        self._devices = devices
        for position, device in enumerate(devices):
            if device.bus_id:
                self._by_bus.setdefault((device.vendor, device.bus_id, device.partition), position)
            self._by_slot.setdefault((device.vendor, *self.slot(device)), []).append(position)

    def slot(self, device: Device) -> tuple[int | None, str | None]:
        """Index and, where that does not tell devices apart, partition."""
        return device.index, device.partition if self._by_partition else None

    def slots(self) -> set[tuple[int | None, str | None]]:
        """The slots of all its devices."""
        return {self.slot(device) for device in self._devices}

    def find(self, device: Device, *, by_index: bool) -> int | None:
        """The position of a device that another report of the same source tells."""
        found = self._by_bus.get((device.vendor, device.bus_id, device.partition)) if device.bus_id else None
        if not by_index or device.index is None:
            return found
        # An address tells more than an index: two that differ are two devices.
        alike = self._by_slot.get((device.vendor, *self.slot(device)), ())
        by_slot = next((each for each in alike if not (device.bus_id and self._devices[each].bus_id)), None)
        return min((each for each in (found, by_slot) if each is not None), default=None)


def _sightings_of(reports: Sequence[SourceReport]) -> list[Sighting]:
    """What one source sees: the newest list decides which devices there are."""
    listings = [report for report in reports if report.lists_devices]
    if not listings:
        return _attached(reports)
    newest = max(listings, key=lambda report: report.taken)
    by_partition = any(repeats_an_index(report.report.devices) for report in reports)
    finders = {id(report): _Finder(report.report.devices, by_partition=by_partition) for report in reports}
    slots = {key: finder.slots() for key, finder in finders.items()}
    # A lost card makes some tools number the rest anew: an index says something across two polls
    # only while both list the same indices.
    comparable = {id(report): slots[id(report)] == slots[id(newest)] for report in reports}
    seatings = {id(report): Seating(report.report.devices) for report in reports}
    seats = seatings[id(newest)]
    by_time = sorted(reports, key=lambda report: -report.taken)
    found = []
    for position, listed in enumerate(newest.report.devices):
        device = listed
        parts = [(newest, position)]
        for report in by_time:
            if report is newest:
                continue
            by_index = comparable[id(report)]
            if seatings[id(report)].agrees_with(seats):
                elsewhere = seatings[id(report)].find(listed, told_with=seats)
            else:
                elsewhere = finders[id(report)].find(device, by_index=by_index)
            if elsewhere is not None:
                parts.append((report, elsewhere))
                other = report.report.devices[elsewhere]
                if device.parent is None and other.parent is not None:
                    owner = report.report.devices[other.parent]
                    parent = finders[id(newest)].find(owner, by_index=by_index)
                    device = replace(device, parent=parent)
                device = combine(device, other)
        device = replace(device, up=listed.up)  # what an older poll saw says nothing of a card that was lost since
        rank = (FORM_RANK[newest.report.form], newest.source)
        found.append(Sighting(newest.source, rank, device, tuple(parts), newest, newest.report.index_space))
    return found


def _attached(reports: Sequence[SourceReport]) -> list[Sighting]:
    """What a source without a list of its own tells of devices, by their index in one space."""
    parts: dict[tuple[str, int], list[tuple[SourceReport, int]]] = {}
    for report in sorted(reports, key=lambda report: -report.taken):
        for position, device in enumerate(report.report.devices):
            if device.index is not None and report.report.index_space:
                parts.setdefault((report.report.index_space, device.index), []).append((report, position))
    found = []
    for (space, _), told in parts.items():
        newest, position = told[0]
        device = newest.report.devices[position]
        for report, elsewhere in told[1:]:
            device = combine(device, report.report.devices[elsewhere])
        rank = (FORM_RANK[newest.report.form], newest.source)
        found.append(Sighting(newest.source, rank, device, tuple(told), newest, space, attached=True))
    return found


def sightings(reports: Iterable[SourceReport]) -> list[Sighting]:
    """All sightings, the most preferred sources first, and those without a list of their own last."""
    by_source: dict[str, list[SourceReport]] = {}
    for report in reports:
        by_source.setdefault(report.source, []).append(report)
    found = [sighting for of_source in by_source.values() for sighting in _sightings_of(of_source)]
    return sorted(found, key=lambda sighting: (sighting.attached, sighting.rank))


class _Joiner:
    """Groups found so far, by the keys under which the next sighting may belong to one."""

    def __init__(self, found: Sequence[Sighting]) -> None:
        self.groups: list[Group] = []
        self.problems: list[tuple[str, Problem]] = []
        self._by_key: dict[tuple[str | None, ...], list[Group]] = {}
        self._uuid_count = Counter(
            (sighting.source, sighting.device.vendor, canonical_uuid(sighting.device.uuid)) for sighting in found
        )

    def take(self, sighting: Sighting) -> None:
        candidates = self._candidates(sighting)
        if len(candidates) == 1:
            group = candidates[0]
        elif sighting.attached:
            return  # the device is not listed, or not any more: it is not this source that would know
        else:
            if candidates:
                self.problems.append((sighting.source, Problem(_name(sighting.device), _ambiguous(candidates))))
            group = Group(sighting.device.vendor)
            self.groups.append(group)
        group.add(sighting)
        for key in (self._bus_key(group.device.bus_id, group.device), self._uuid_key(sighting)):
            if key is not None and group not in self._by_key.setdefault(key, []):
                self._by_key[key].append(group)

    def _candidates(self, sighting: Sighting) -> list[Group]:
        """The groups that the sighting may belong to, by the first rule that finds any."""
        device = sighting.device
        if device.bus_id:
            by_bus = [
                group
                for group in self._open(sighting, self._bus_key(device.bus_id, device))
                if _same_bus(_slot_of(group.device.bus_id or "", device), _slot_of(device.bus_id, device))
            ]
            if by_bus:
                return by_bus
        return [
            group
            for group in self._open(sighting, self._uuid_key(sighting))
            if not (group.device.bus_id and device.bus_id)
        ]

    def _open(self, sighting: Sighting, key: tuple[str | None, ...] | None) -> list[Group]:
        """The groups under a key that have no sighting of this source yet."""
        if key is None:
            return []
        return [
            group
            for group in self._by_key.get(key, ())
            if all(other.source != sighting.source for other in group.sightings)
        ]

    def _bus_key(self, bus_id: str | None, device: Device) -> tuple[str | None, ...] | None:
        """Vendor, bus:device.function without the domain, and partition."""
        if not bus_id:
            return None
        return ("bus", device.vendor, ":".join(_slot_of(bus_id, device).split(":")[-2:]), device.partition)

    def _uuid_key(self, sighting: Sighting) -> tuple[str | None, ...] | None:
        """Vendor, uuid and partition; None unless the source has the uuid only once."""
        device = sighting.device
        uuid = canonical_uuid(device.uuid)
        if uuid is None or self._uuid_count[(sighting.source, device.vendor, uuid)] > 1:
            return None
        return ("uuid", device.vendor, uuid, device.partition)


def _slot_of(bus_id: str, device: Device) -> str:
    """The address, of a partition without the function: sysfs gives its card's there, AMD's tools count partitions in it."""
    return bus_id if device.partition is None else bus_id.rpartition(".")[0]


def _same_bus(first: str, second: str) -> bool:
    """Whether two addresses can be one; a tool that prints no PCI domain gives `bb:dd.f` only."""
    return first == second or first.endswith(":" + second) or second.endswith(":" + first)


def _name(device: Device) -> str:
    return f"{device.vendor} {device.bus_id or device.uuid or device.index}"


def _ambiguous(candidates: Sequence[Group]) -> str:
    names = ", ".join(_name(group.device) for group in candidates)
    return f"could be any of {names}, so it is shown as a device of its own"


def join(found: Sequence[Sighting]) -> Joined:
    """The sightings grouped into devices: by bus address, else unique uuid; never by serial."""
    joiner = _Joiner(found)
    for sighting in found:
        joiner.take(sighting)
    return Joined(tuple(joiner.groups), tuple(joiner.problems))
