"""Accepts a new device in a known device's slot only after a second report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce

from telemetry_parsers.combining import canonical_uuid, combine_devices, is_same_slot, uuids_differ, without_domain
from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.merge.joining import Sighting, SightingGroup
from telemetry_parsers.model import Device, Identity, Problem

REQUIRED_WITNESSES = 2
# A report that lists the new device: (source, poll, time of the capture).
Witness = tuple[str, str, float]
# Maps (vendor, UUID or address) of each new device to the reports that list the device.
Witnesses = Mapping[tuple[str, str], frozenset[Witness]]


@dataclass(frozen=True, slots=True)
class UnconfirmedDevice:
    """A new device in the slot of a known device (`occupant`), until it is confirmed."""

    group: SightingGroup
    occupant: Identity
    problem: tuple[str, Problem]


@dataclass(slots=True)
class NewDevices:
    """The unconfirmed devices, and the reports that list new devices (`witnesses`)."""

    unconfirmed: dict[int, UnconfirmedDevice] = field(default_factory=dict)  # by the `id()` of the new device's group
    witnesses: dict[tuple[str, str], frozenset[Witness]] = field(default_factory=dict)


def check_new_devices(
    new_groups: Sequence[SightingGroup], missing: Iterable[Identity], previous: Witnesses
) -> NewDevices:
    """Find unconfirmed new devices in the slots of known devices."""
    new_devices, known_devices = NewDevices(), _KnownDevices(missing)
    for group in new_groups:
        name = canonical_uuid(group.device.uuid) or group.device.bus_id
        occupant = known_devices.occupant(group.device) if name and group.device.partition is None else None
        if occupant is None or name is None:
            continue
        key = (group.vendor, name)
        new_witnesses = {
            (source_report.source, source_report.poll, source_report.taken)
            for source_report, position in group.occurrences
            if _contradicts(source_report.report.devices[position], occupant)
        }
        if not new_witnesses:
            continue  # no report contradicts the identity of the known device
        witnesses = frozenset(sorted(new_witnesses | previous.get(key, frozenset()))[:REQUIRED_WITNESSES])
        new_devices.witnesses[key] = witnesses
        if len(witnesses) < REQUIRED_WITNESSES:
            occupant_group = _to_occupant_group(group, occupant)
            new_devices.unconfirmed[id(group)] = UnconfirmedDevice(occupant_group, occupant, _problem(group, occupant))
            known_devices.remove(occupant)
    return new_devices


class _KnownDevices:
    def __init__(self, identities: Iterable[Identity]) -> None:
        self._by_key: dict[tuple[str, str | int], list[Identity]] = {}
        for identity in identities:
            for key in self._slot_keys(identity):
                self._by_key.setdefault(key, []).append(identity)

    def occupant(self, device: Device) -> Identity | None:
        """Return the known device with the same address or, failing that, the same index. Return None if ambiguous."""
        for key in self._slot_keys(device):
            identities = self._by_key.get(key)
            if identities:
                return identities[0] if len(identities) == 1 else None
        return None

    def remove(self, occupant: Identity) -> None:
        """Remove a known device, so that no second new device is compared with it."""
        for key in self._slot_keys(occupant):
            self._by_key[key].remove(occupant)

    @staticmethod
    def _slot_keys(device: Device | Identity) -> Iterator[tuple[str, str | int]]:
        if device.bus_id:
            yield device.vendor, without_domain(device.bus_id)
        if device.index is not None:
            yield device.vendor, device.index


def _contradicts(device: Device, occupant: Identity) -> bool:
    if uuids_differ(occupant.uuid, device.uuid):
        return True
    return bool(device.bus_id and occupant.bus_id) and not is_same_slot(device.bus_id or "", occupant.bus_id or "")


def _to_occupant_group(group: SightingGroup, occupant: Identity) -> SightingGroup:
    occupant_group = SightingGroup(group.vendor)
    for sighting in group.sightings:
        occupant_group.add(_to_occupant_sighting(sighting, occupant))
    return occupant_group


def _to_occupant_sighting(sighting: Sighting, occupant: Identity) -> Sighting:
    """Turn a sighting of a new device into a sighting of the occupant."""
    occurrences = tuple(
        (source_report, position)
        for source_report, position in sighting.occurrences
        if not _contradicts(source_report.report.devices[position], occupant)
    )
    occupant_device = Device(occupant.vendor, sighting.device.index, uuid=occupant.uuid, bus_id=occupant.bus_id)
    devices = (replace(source_report.report.devices[position], parent=None) for source_report, position in occurrences)
    return replace(sighting, device=reduce(combine_devices, (*devices, occupant_device)), occurrences=occurrences)


def _problem(group: SightingGroup, occupant: Identity) -> tuple[str, Problem]:
    name = group.device.uuid or group.device.bus_id
    text = f"the report has {name} instead of {occupant.id}; the change is ignored until a second report confirms it"
    return group.sightings[0].source, Problem(f"{occupant.vendor} {occupant.device}", text)
