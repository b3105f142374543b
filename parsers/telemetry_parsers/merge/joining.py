"""Each device once, however many sources list it: sightings in, groups of sightings out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from telemetry_parsers.combining.devices import canonical_uuid, combine, name_of, same_slot, slot_of, without_domain
from telemetry_parsers.merge.sightings import Sighting
from telemetry_parsers.model import Device, Problem, SourceReport

_MOST_NAMED = 4


@dataclass(slots=True, eq=False)
class Group:
    """The sightings that are one device; the most preferred source comes first."""

    vendor: str
    sightings: list[Sighting] = field(default_factory=list)
    device: Device = field(default_factory=lambda: Device(""))

    @property
    def parts(self) -> Iterator[tuple[SourceReport, int]]:
        """The reports that speak of the device, each with the device's position in it."""
        return (part for sighting in self.sightings for part in sighting.parts)

    def add(self, sighting: Sighting) -> None:
        """Take in the sighting of one more source, which fills in what is still unknown."""
        self.device = combine(self.device, sighting.device) if self.sightings else sighting.device
        self.sightings.append(sighting)


@dataclass(frozen=True, slots=True)
class Joined:
    """All devices of the node, and what could not be joined."""

    groups: tuple[Group, ...]
    problems: tuple[tuple[str, Problem], ...]


class _Joiner:
    """The groups so far, by the addresses and uuids under which the next sighting may belong to one."""

    def __init__(self, sightings: Sequence[Sighting]) -> None:
        self.groups: list[Group] = []
        self.problems: list[tuple[str, Problem]] = []
        self._by_key: dict[tuple[str | None, ...], list[Group]] = {}
        self._uuid_count = Counter(
            (sighting.source, sighting.device.vendor, canonical_uuid(sighting.device.uuid)) for sighting in sightings
        )

    def take(self, sighting: Sighting) -> None:
        candidates = self._candidates(sighting)
        if len(candidates) == 1:
            group = candidates[0]
        elif sighting.attached:
            return  # the device is not listed; a source without a list of its own adds none
        else:
            if candidates:
                self.problems.append((sighting.source, Problem(name_of(sighting.device), _ambiguous(candidates))))
            group = Group(sighting.device.vendor)
            self.groups.append(group)
        group.add(sighting)
        for key in (self._bus_key(group.device.bus_id, group.device), self._uuid_key(sighting)):
            if key is not None and group not in self._by_key.setdefault(key, []):
                self._by_key[key].append(group)

    def _candidates(self, sighting: Sighting) -> list[Group]:
        """The groups to which the sighting may belong: those at its address, else those with its uuid."""
        device = sighting.device
        if device.bus_id:
            by_bus = [
                group
                for group in self._open(sighting, self._bus_key(device.bus_id, device))
                if same_slot(
                    slot_of(group.device.bus_id or "", device.partition), slot_of(device.bus_id, device.partition)
                )
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
        return ("bus", device.vendor, without_domain(slot_of(bus_id, device.partition)), device.partition)

    def _uuid_key(self, sighting: Sighting) -> tuple[str | None, ...] | None:
        """Vendor, uuid and partition; None unless the source has the uuid only once."""
        device = sighting.device
        uuid = canonical_uuid(device.uuid)
        if uuid is None or self._uuid_count[(sighting.source, device.vendor, uuid)] > 1:
            return None
        return ("uuid", device.vendor, uuid, device.partition)


def _ambiguous(candidates: Sequence[Group]) -> str:
    names = ", ".join(name_of(group.device) for group in candidates[:_MOST_NAMED])
    more = f" and {len(candidates) - _MOST_NAMED} more" if len(candidates) > _MOST_NAMED else ""
    return f"could be any of {names}{more}, so it is shown as a device of its own"


def join(sightings: Sequence[Sighting]) -> Joined:
    """The sightings grouped into devices: by bus address, else unique uuid; never by serial."""
    joiner = _Joiner(sightings)
    for sighting in sightings:
        joiner.take(sighting)
    return Joined(tuple(joiner.groups), tuple(joiner.problems))
