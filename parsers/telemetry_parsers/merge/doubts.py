"""New devices at the address of a known one are accepted when reported twice: a garbled line is not a new card."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce

from telemetry_parsers.combining import canonical_uuid, combine, differ, same_slot, without_domain
from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.merge.joining import Group, Sighting
from telemetry_parsers.model import Device, Identity, Problem

ENOUGH_WITNESSES = 2
# The source, the poll, and the time of the capture.
Witness = tuple[str, str, float]
# The vendor, and the unknown uuid or address.
Doubts = Mapping[tuple[str, str], frozenset[Witness]]


@dataclass(frozen=True, slots=True)
class Doubt:
    """A new device at the address or number of a known one. Without its new name, the rest belongs to the `occupant`."""

    group: Group
    occupant: Identity
    problem: tuple[str, Problem]


@dataclass(slots=True)
class Weighed:
    """The doubts by the `id()` of their groups, and the witnesses of every new device in an occupied slot."""

    doubts: dict[int, Doubt] = field(default_factory=dict)
    remembered: dict[tuple[str, str], frozenset[Witness]] = field(default_factory=dict)


def weigh(new_groups: Sequence[Group], present: Iterable[Identity], before: Doubts) -> Weighed:
    """Return the new devices to doubt. `present` are missing since the previous lists. Partitions are never doubted."""
    weighed, slots = Weighed(), _Slots(present)
    for group in new_groups:
        name = canonical_uuid(group.device.uuid) or group.device.bus_id
        occupant = slots.occupant(group.device) if name and group.device.partition is None else None
        if occupant is None or name is None:
            continue
        key = (group.vendor, name)
        witnesses_now = {
            (report.source, report.poll, report.taken)
            for report, position in group.parts
            if _is_another(report.report.devices[position], occupant)
        }
        if not witnesses_now:
            continue  # nothing identifies the device, so that it may be the known one
        # The number of witnesses is limited, so that memory does not grow with a device that is never accepted.
        witnesses = frozenset(sorted(witnesses_now | before.get(key, frozenset()))[:ENOUGH_WITNESSES])
        weighed.remembered[key] = witnesses
        if len(witnesses) < ENOUGH_WITNESSES:
            weighed.doubts[id(group)] = Doubt(_what_is_left(group, occupant), occupant, _problem(group, occupant))
            slots.free(occupant)
    return weighed


class _Slots:
    """Known devices by address and by number."""

    def __init__(self, present: Iterable[Identity]) -> None:
        self._held: dict[tuple[str, str | int], list[Identity]] = {}
        for identity in present:
            for key in self._of(identity):
                self._held.setdefault(key, []).append(identity)

    def occupant(self, device: Device) -> Identity | None:
        """Return the only known device at the same address, else the only one with the same number."""
        for key in self._of(device):
            identities = self._held.get(key)
            if identities:
                return identities[0] if len(identities) == 1 else None
        return None

    def free(self, occupant: Identity) -> None:
        """Remove a known device, so that a second new device is not mistaken for its replacement."""
        for key in self._of(occupant):
            self._held[key].remove(occupant)

    @staticmethod
    def _of(device: Device | Identity) -> Iterator[tuple[str, str | int]]:
        if device.bus_id:
            yield device.vendor, without_domain(device.bus_id)
        if device.index is not None:
            yield device.vendor, device.index


def _is_another(device: Device, occupant: Identity) -> bool:
    """Return whether the reported device has another uuid or address than the known device."""
    if differ(occupant.uuid, device.uuid):
        return True
    return bool(device.bus_id and occupant.bus_id) and not same_slot(device.bus_id or "", occupant.bus_id or "")


def _what_is_left(group: Group, occupant: Identity) -> Group:
    remaining = Group(group.vendor)
    for sighting in group.sightings:
        remaining.add(_without_another(sighting, occupant))
    return remaining


def _without_another(sighting: Sighting, occupant: Identity) -> Sighting:
    """Return the sighting as one of the occupant, without the reports that name another device."""
    parts = tuple(
        (report, position)
        for report, position in sighting.parts
        if not _is_another(report.report.devices[position], occupant)
    )
    occupying = Device(occupant.vendor, sighting.device.index, uuid=occupant.uuid, bus_id=occupant.bus_id)
    devices = (replace(report.report.devices[position], parent=None) for report, position in parts)
    return replace(sighting, device=reduce(combine, (*devices, occupying)), parts=parts)


def _problem(group: Group, occupant: Identity) -> tuple[str, Problem]:
    name = group.device.uuid or group.device.bus_id
    text = f"reported as {name} where {occupant.id} was: ignored until it is reported twice"
    return group.sightings[0].source, Problem(f"{occupant.vendor} {occupant.device}", text)
