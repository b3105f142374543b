"""Chooses each device's id and label, which do not change while the device is remembered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import partial

from telemetry_parsers.combining import canonical_uuid, chip_of, is_same_slot, slot_of, uuids_differ, without_domain
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.merge.joining import SightingGroup
from telemetry_parsers.merge.merge_state import MergeState
from telemetry_parsers.merge.new_devices import NewDevices, check_new_devices
from telemetry_parsers.model import Device, Identity


@dataclass(frozen=True, slots=True)
class NamedDevice:
    """A device's sightings and its published identity."""

    group: SightingGroup
    identity: Identity


@dataclass(frozen=True, slots=True)
class NamingResult:
    """The devices with and without an identity, and the unconfirmed new devices."""

    devices: tuple[NamedDevice, ...]
    unnamed: tuple[SightingGroup, ...]
    new_devices: NewDevices


class _RememberedIdentities:
    """The identities from earlier merges. Each is assigned to at most one device."""

    def __init__(self, identities: Iterable[Identity], groups: Sequence[SightingGroup]) -> None:
        self.identities = {identity.id: identity for identity in identities}
        self.assigned_ids: set[str] = set()
        self.by_uuid: dict[tuple[str, str | None, str | None], list[Identity]] = {}
        self.by_bus: dict[tuple[str, str, str | None], list[Identity]] = {}
        for identity in self.identities.values():
            if uuid := canonical_uuid(identity.uuid):
                self.by_uuid.setdefault((identity.vendor, uuid, identity.partition), []).append(identity)
            if identity.bus_id:
                self.by_bus.setdefault(_bus_key(identity.vendor, identity.bus_id, identity.partition), []).append(
                    identity
                )
        self.index_counts = Counter(
            (group.vendor, group.device.index) for group in groups if group.device.partition is None
        )
        self.bus_counts = Counter(
            _bus_key(group.vendor, group.device.bus_id, group.device.partition)
            for group in groups
            if group.device.bus_id
        )
        self.uuid_counts = Counter((group.vendor, canonical_uuid(group.device.uuid)) for group in groups)

    def unique_uuid(self, group: SightingGroup) -> str | None:
        uuid = canonical_uuid(group.device.uuid)
        return uuid if uuid is not None and self.uuid_counts[(group.vendor, uuid)] == 1 else None

    def has_shared_index(self, group: SightingGroup) -> bool:
        """Return whether another chip has the same index."""
        chip = chip_of(group.device)
        return chip is not None and chip.number is not None and self.index_counts[group.vendor, group.device.index] > 1

    def assign(self, group: SightingGroup) -> Identity | None:
        """Return the identity that the device had in earlier merges, or None for a new device."""
        for identity in self._candidates(group):
            if identity.id not in self.assigned_ids and not uuids_differ(identity.uuid, self.unique_uuid(group)):
                self.assigned_ids.add(identity.id)
                return identity
        return None

    def _candidates(self, group: SightingGroup) -> list[Identity]:
        device = group.device
        candidates: list[Identity] = []
        if uuid := self.unique_uuid(group):
            candidates += self.by_uuid.get((group.vendor, uuid, device.partition), ())
        candidates += self._identities_at_address(group)
        if uuid is None and canonical_uuid(device.uuid) and device.index is not None and not candidates:
            # Several devices have the same UUID, so only the index identifies the device.
            index_key = (group.vendor, device.index, device.partition)
            candidates += [
                identity
                for identity in self.identities.values()
                if (identity.vendor, identity.index, identity.partition) == index_key
            ]
        for device_id in (_chip_id(group), _index_id(group)):
            identity = self.identities.get(device_id)
            if identity is not None and identity.bus_id is None and identity.partition == device.partition:
                candidates.append(identity)
        return candidates

    def _identities_at_address(self, group: SightingGroup) -> list[Identity]:
        bus_id, partition = group.device.bus_id, group.device.partition
        if not bus_id:
            return []
        key, slot = _bus_key(group.vendor, bus_id, partition), slot_of(bus_id, partition)
        slots = {identity.id: slot_of(identity.bus_id or "", partition) for identity in self.by_bus.get(key, ())}
        ids = [identity_id for identity_id, known_slot in slots.items() if known_slot == slot]
        if not ids and self.bus_counts[key] == 1:
            ids = [identity_id for identity_id, known_slot in slots.items() if is_same_slot(known_slot, slot)]
            ids = ids if len(ids) == 1 else []
        return sorted((self.identities[identity_id] for identity_id in ids), key=partial(_likelihood_key, group.device))


def _likelihood_key(device: Device, identity: Identity) -> tuple[bool, bool, int]:
    return _is_other_chip(device, identity), identity.lost_since is not None, -identity.polls


def _is_other_chip(device: Device, identity: Identity) -> bool:
    """Return whether the identity belongs to another chip on the device's card."""
    if identity.uuid is not None:
        return False
    chip, chip_number = chip_of(device), identity.device.partition(":")[2]
    if chip is not None and None not in (chip.number, chip_number or None):
        return chip.number != chip_number
    return None not in (device.index, identity.index) and device.index != identity.index


def _bus_key(vendor: str, bus_id: str, partition: str | None) -> tuple[str, str, str | None]:
    return vendor, without_domain(slot_of(bus_id, partition)), partition


def _new_id(group: SightingGroup, parent: Identity | None, remembered: _RememberedIdentities) -> str | None:
    """Return the first unused id of UUID, `parent/partition`, address and `vendor:index`, or None if there is none."""
    device = group.device
    candidates = []
    if remembered.unique_uuid(group) is not None and device.uuid:
        candidates.append(device.uuid.strip())
    if device.partition is not None:
        parent_id = parent.id if parent else device.bus_id or f"{group.vendor}:{device.index}"
        candidates.append(f"{parent_id}/{device.partition}")
    elif device.bus_id:
        candidates.append(device.bus_id)
    if device.partition is None and (device.index is not None or not candidates):
        candidates.append(_chip_id(group) if remembered.has_shared_index(group) else _index_id(group))
    return next((candidate for candidate in candidates if candidate not in remembered.identities), None)


def _index_id(group: SightingGroup) -> str:
    """Return the id of a device that has only an index, such as `amd:0`."""
    index = group.device.index
    return f"{group.vendor}:{'unnumbered' if index is None else index}"


def _chip_id(group: SightingGroup) -> str:
    """Return the id of a chip without an address or UUID, such as `ascend:3/1`."""
    chip = chip_of(group.device)
    return _index_id(group) + (f"/{chip.number}" if chip is not None and chip.number is not None else "")


def _device_label(group: SightingGroup, parent: Identity | None, remembered: _RememberedIdentities, rank: int) -> str:
    """Return the `device` label: the tool's index, or the rank by bus address."""
    device = group.device
    if device.partition is not None and parent is not None:
        return f"{parent.device}:{device.partition}"
    index = next((item.device.index for item in reversed(group.sightings) if item.device.index is not None), None)
    chip = chip_of(device)
    if chip is not None and remembered.has_shared_index(group):
        return f"{index}:{chip.number}"
    return str(rank if index is None else index)


def _update_identity(identity: Identity, device: Device, uuid: str | None, parent: Identity | None) -> Identity:
    facts = dict(device.facts)
    return replace(
        identity,
        index=device.index if device.index is not None else identity.index,
        uuid=identity.uuid or uuid,
        bus_id=_preferred_address(device.bus_id, identity.bus_id),
        serial=identity.serial or device.serial,
        parent=parent.id if parent else identity.parent,
        power_kind=identity.power_kind or facts.get("power_kind"),
    )


def _preferred_address(printed: str | None, remembered: str | None) -> str | None:
    """Return the printed address. If only its domain is missing, return the remembered address."""
    return remembered if not printed or (remembered or "").endswith(":" + printed) else printed


def _parent_groups(groups: Sequence[SightingGroup]) -> dict[int, SightingGroup]:
    """Return each partition's parent group, keyed by the `id()` of the partition's group."""
    groups_by_position: dict[tuple[str, str, int | None], SightingGroup] = {
        (report.source, report.poll, position): group for group in groups for report, position in group.occurrences
    }
    parents = {}
    for group in groups:
        positions = ((item.source, item.list_report.poll, item.device.parent) for item in group.sightings)
        parent = next((groups_by_position[key] for key in positions if key in groups_by_position), None)
        if parent is not None and parent is not group:
            parents[id(group)] = parent
    return parents


def _ranks_by_address(groups: Sequence[SightingGroup]) -> dict[int, int]:
    ranks: dict[int, int] = {}
    next_ranks: Counter[str] = Counter()
    for group in sorted(groups, key=lambda item: (item.vendor, item.device.bus_id or "~", item.device.index or 0)):
        if group.device.partition is None:
            ranks[id(group)] = next_ranks[group.vendor]
            next_ranks[group.vendor] += 1
    return ranks


def name_groups(groups: Sequence[SightingGroup], state: MergeState, pending_vendors: Collection[str]) -> NamingResult:
    """Assign an identity to each group, except to new devices of `pending_vendors`."""
    remembered = _RememberedIdentities(state.identities, groups)
    parents, ranks = _parent_groups(groups), _ranks_by_address(groups)
    devices: dict[int, NamedDevice] = {}
    unnamed = []
    cards_first = sorted(groups, key=lambda group: id(group) in parents)
    identities = {id(group): remembered.assign(group) for group in cards_first}
    new_groups = [
        group for group in cards_first if identities[id(group)] is None and group.vendor not in pending_vendors
    ]
    new_devices = _check_new_devices(new_groups, remembered, state) if new_groups else NewDevices()
    for group in cards_first:
        parent_device = devices.get(id(parents[id(group)])) if id(group) in parents else None
        parent = None if parent_device is None else parent_device.identity
        identity, shown_group = identities[id(group)], group
        if id(group) in new_devices.unconfirmed:
            unconfirmed = new_devices.unconfirmed[id(group)]
            identity, shown_group = unconfirmed.occupant, unconfirmed.group
        if identity is None:
            if group.vendor in pending_vendors:
                continue
            identity = _new_identity(group, parent, remembered, ranks.get(id(group), 0))
            if identity is None:
                unnamed.append(group)
                continue
        uuid = None if remembered.unique_uuid(shown_group) is None else shown_group.device.uuid
        identity = _update_identity(identity, shown_group.device, uuid, parent)
        remembered.identities[identity.id] = identity
        devices[id(group)] = NamedDevice(shown_group, identity)
    in_order = tuple(devices[id(group)] for group in groups if id(group) in devices)
    return NamingResult(in_order, tuple(unnamed), new_devices)


def _check_new_devices(
    new_groups: Sequence[SightingGroup], remembered: _RememberedIdentities, state: MergeState
) -> NewDevices:
    """Compare the new devices with the devices that have just disappeared."""
    missing = [
        identity
        for identity in remembered.identities.values()
        if identity.id in state.list_history
        and identity.lost_since is None
        and identity.partition is None
        and identity.id not in remembered.assigned_ids
    ]
    new_devices = check_new_devices(new_groups, missing, state.witnesses) if missing else NewDevices()
    remembered.assigned_ids.update(device.occupant.id for device in new_devices.unconfirmed.values())
    return new_devices


def _new_identity(
    group: SightingGroup, parent: Identity | None, remembered: _RememberedIdentities, rank: int
) -> Identity | None:
    new_id = _new_id(group, parent, remembered)
    if new_id is None:
        return None
    device = group.device
    return Identity(
        id=new_id,
        vendor=group.vendor,
        device=_device_label(group, parent, remembered, rank),
        model=device.model or "",
        partition=device.partition,
        simulated=device.simulated,
    )
