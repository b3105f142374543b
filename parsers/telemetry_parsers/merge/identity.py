"""Ids and labels of devices: chosen when a device is first published, unchanged as long as it is remembered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

from telemetry_parsers.combining import canonical_uuid, chip_place_of, differ, same_slot, slot_of, without_domain
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.merge import doubts
from telemetry_parsers.merge.doubts import Weighed
from telemetry_parsers.merge.joining import Group
from telemetry_parsers.merge.memory import MergeState
from telemetry_parsers.model import Device, Identity


@dataclass(frozen=True, slots=True)
class Named:
    """A group of sightings with its published identity."""

    group: Group
    identity: Identity


@dataclass(frozen=True, slots=True)
class Naming:
    """The groups with an identity, the groups without a unique one, and the doubts about new devices."""

    named: tuple[Named, ...]
    nameless: tuple[Group, ...]
    weighed: Weighed


class _Remembered:
    """Remembered identities. Each can be claimed by one group."""

    def __init__(self, identities: Iterable[Identity], groups: Sequence[Group]) -> None:
        self.identities = {identity.id: identity for identity in identities}
        self.claimed: set[str] = set()
        self.by_uuid: dict[tuple[str, str | None, str | None], list[Identity]] = {}
        self.by_bus: dict[tuple[str, str, str | None], list[Identity]] = {}
        for identity in self.identities.values():
            if uuid := canonical_uuid(identity.uuid):
                self.by_uuid.setdefault((identity.vendor, uuid, identity.partition), []).append(identity)
            if identity.bus_id:
                self.by_bus.setdefault(_bus_key(identity.vendor, identity.bus_id, identity.partition), []).append(
                    identity
                )
        self.index_count = Counter(
            (group.vendor, group.device.index) for group in groups if group.device.partition is None
        )
        self.bus_count = Counter(
            _bus_key(group.vendor, group.device.bus_id, group.device.partition)
            for group in groups
            if group.device.bus_id
        )
        self.uuid_count = Counter((group.vendor, canonical_uuid(group.device.uuid)) for group in groups)

    def unique_uuid(self, group: Group) -> str | None:
        """Return the group's uuid if no other device of the node has the same."""
        uuid = canonical_uuid(group.device.uuid)
        return uuid if uuid is not None and self.uuid_count[(group.vendor, uuid)] == 1 else None

    def shares_index(self, group: Group) -> bool:
        """Return whether all chips of the card have its index, so that only their chip numbers distinguish them."""
        chip_place = chip_place_of(group.device)
        return (
            chip_place is not None
            and chip_place.chip is not None
            and self.index_count[group.vendor, group.device.index] > 1
        )

    def find(self, group: Group) -> Identity | None:
        """Return the identity under which this device was published before."""
        for identity in self._candidates(group):
            if identity.id not in self.claimed and not differ(identity.uuid, self.unique_uuid(group)):
                self.claimed.add(identity.id)
                return identity
        return None

    def _candidates(self, group: Group) -> list[Identity]:
        device = group.device
        candidates: list[Identity] = []
        if uuid := self.unique_uuid(group):
            candidates += self.by_uuid.get((group.vendor, uuid, device.partition), ())
        candidates += self._at_address(group)
        if uuid is None and canonical_uuid(device.uuid) and device.index is not None and not candidates:
            # A uuid that several devices share identifies none of them. Only the index is left.
            numbered = (group.vendor, device.index, device.partition)
            candidates += [
                identity
                for identity in self.identities.values()
                if (identity.vendor, identity.index, identity.partition) == numbered
            ]
        for name in (_by_chip_place(group), _by_index(group)):
            by_index = self.identities.get(name)
            if by_index is not None and by_index.bus_id is None and by_index.partition == device.partition:
                candidates.append(by_index)
        return candidates

    def _at_address(self, group: Group) -> list[Identity]:
        """Return the identities at the group's address. An address without its domain counts if it fits one device only."""
        bus_id, partition = group.device.bus_id, group.device.partition
        if not bus_id:
            return []
        key, slot = _bus_key(group.vendor, bus_id, partition), slot_of(bus_id, partition)
        slots = {identity.id: slot_of(identity.bus_id or "", partition) for identity in self.by_bus.get(key, ())}
        ids = [id_ for id_, its_slot in slots.items() if its_slot == slot]
        if not ids and self.bus_count[key] == 1:
            ids = [id_ for id_, its_slot in slots.items() if same_slot(its_slot, slot)]
            ids = ids if len(ids) == 1 else []
        return sorted((self.identities[id_] for id_ in ids), key=partial(_unlikeness, group.device))


def _unlikeness(device: Device, identity: Identity) -> tuple[bool, bool, int]:
    """Return the sort key of an identity at the device's address: present before lost, then more often seen first."""
    return _is_other_chip(device, identity), identity.lost_since is not None, -identity.polls


def _is_other_chip(device: Device, identity: Identity) -> bool:
    """Return whether the identity is another chip of the same card. Such chips may share an address and have no uuid."""
    if identity.uuid is not None:
        return False
    chip_place, named = chip_place_of(device), identity.device.partition(":")[2]
    if chip_place is not None and None not in (chip_place.chip, named or None):
        return chip_place.chip != named
    return None not in (device.index, identity.index) and device.index != identity.index


def _bus_key(vendor: str, bus_id: str, partition: str | None) -> tuple[str, str, str | None]:
    """Return the part that all spellings of one address share."""
    return vendor, without_domain(slot_of(bus_id, partition)), partition


def _new_id(group: Group, parent: Identity | None, remembered: _Remembered) -> str | None:
    """Return the uuid if unique, else the bus address, else vendor:index; for a partition, <parent>/<partition>."""
    device = group.device
    choices = []
    if remembered.unique_uuid(group) is not None and device.uuid:
        choices.append(device.uuid.strip())
    if device.partition is not None:
        owner = parent.id if parent else device.bus_id or f"{group.vendor}:{device.index}"
        choices.append(f"{owner}/{device.partition}")
    elif device.bus_id:
        choices.append(device.bus_id)
    if device.partition is None and (device.index is not None or not choices):
        choices.append(_by_chip_place(group) if remembered.shares_index(group) else _by_index(group))
    return next((choice for choice in choices if choice not in remembered.identities), None)


def _by_index(group: Group) -> str:
    """Return the id of a device known by its index only, such as `amd:0`, or `unnumbered` without an index."""
    index = group.device.index
    return f"{group.vendor}:{'unnumbered' if index is None else index}"


def _by_chip_place(group: Group) -> str:
    """Return the id of a chip known by the index of its card and its number on the card only, such as `ascend:3/1`."""
    chip_place = chip_place_of(group.device)
    return _by_index(group) + (f"/{chip_place.chip}" if chip_place is not None and chip_place.chip is not None else "")


def _label(group: Group, parent: Identity | None, remembered: _Remembered, rank: int) -> str:
    """Return the `device` label: the tool's index, else the rank by bus address; `0:1` for a partition or a chip."""
    device = group.device
    if device.partition is not None and parent is not None:
        return f"{parent.device}:{device.partition}"
    index = next((s.device.index for s in reversed(group.sightings) if s.device.index is not None), None)
    chip_place = chip_place_of(device)
    if chip_place is not None and remembered.shares_index(group):
        return f"{index}:{chip_place.chip}"
    return str(rank if index is None else index)


def _refresh(identity: Identity, device: Device, uuid: str | None, parent: Identity | None) -> Identity:
    """Return the identity with newly learnt fields; id, device and model do not change."""
    facts = dict(device.facts)
    return replace(
        identity,
        index=device.index if device.index is not None else identity.index,
        uuid=identity.uuid or uuid,
        bus_id=_fuller(device.bus_id, identity.bus_id),
        serial=identity.serial or device.serial,
        parent=parent.id if parent else identity.parent,
        power_kind=identity.power_kind or facts.get("power_kind"),
    )


def _fuller(printed: str | None, remembered: str | None) -> str | None:
    """Return the printed address, unless it is the remembered one without its domain."""
    return remembered if not printed or (remembered or "").endswith(":" + printed) else printed


def _parent_of(group: Group, groups: Mapping[tuple[str, str, int], Group]) -> Group | None:
    for sighting in group.sightings:
        if sighting.device.parent is not None:
            key = (sighting.source, sighting.listing.poll, sighting.device.parent)
            if key in groups:
                return groups[key]
    return None


def _parents(groups: Sequence[Group]) -> dict[int, Group]:
    """Return the parent group of each partition, by the `id()` of the partition's group."""
    by_position = {(part.source, part.poll, position): group for group in groups for part, position in group.parts}
    parents = {}
    for group in groups:
        parent = _parent_of(group, by_position)
        if parent is not None and parent is not group:
            parents[id(group)] = parent
    return parents


def _ranks(groups: Sequence[Group]) -> dict[int, int]:
    """Return the rank by bus address of each whole device within its vendor."""
    ranks: dict[int, int] = {}
    seen: Counter[str] = Counter()
    for group in sorted(groups, key=lambda g: (g.vendor, g.device.bus_id or "~", g.device.index or 0)):
        if group.device.partition is None:
            ranks[id(group)] = seen[group.vendor]
            seen[group.vendor] += 1
    return ranks


def name(groups: Sequence[Group], state: MergeState, pending_vendors: Collection[str]) -> Naming:
    """Return each group's identity, without new devices of pending vendors. A doubted device is its slot's known device."""
    remembered = _Remembered(state.identities, groups)
    parents, ranks = _parents(groups), _ranks(groups)
    named: dict[int, Named] = {}
    nameless = []
    whole_first = sorted(groups, key=lambda group: id(group) in parents)
    identities = {id(group): remembered.find(group) for group in whole_first}
    new_groups = [
        group for group in whole_first if identities[id(group)] is None and group.vendor not in pending_vendors
    ]
    weighed = _ambiguous_devices(new_groups, remembered, state) if new_groups else Weighed()
    for group in whole_first:
        owner = parents.get(id(group))
        parent = named[id(owner)].identity if owner is not None and id(owner) in named else None
        identity, shown = identities[id(group)], group
        if id(group) in weighed.doubts:
            identity, shown = weighed.doubts[id(group)].occupant, weighed.doubts[id(group)].group
        if identity is None:
            if group.vendor in pending_vendors:
                continue
            identity = _create(group, parent, remembered, ranks.get(id(group), 0))
            if identity is None:
                nameless.append(group)
                continue
        uuid = None if remembered.unique_uuid(shown) is None else shown.device.uuid
        identity = _refresh(identity, shown.device, uuid, parent)
        remembered.identities[identity.id] = identity
        named[id(group)] = Named(shown, identity)
    return Naming(tuple(named[id(group)] for group in groups if id(group) in named), tuple(nameless), weighed)


def _ambiguous_devices(new_groups: Sequence[Group], remembered: _Remembered, state: MergeState) -> Weighed:
    """Return the doubts about new devices if listed devices disappeared, and claim the identities of the doubted slots."""
    present = [
        identity
        for identity in remembered.identities.values()
        if identity.id in state.seen
        and identity.lost_since is None
        and identity.partition is None
        and identity.id not in remembered.claimed
    ]
    weighed = doubts.weigh(new_groups, present, state.doubts) if present else Weighed()
    remembered.claimed.update(doubt.occupant.id for doubt in weighed.doubts.values())
    return weighed


def _create(group: Group, parent: Identity | None, remembered: _Remembered, rank: int) -> Identity | None:
    new_id = _new_id(group, parent, remembered)
    if new_id is None:
        return None
    device = group.device
    return Identity(
        id=new_id,
        vendor=group.vendor,
        device=_label(group, parent, remembered, rank),
        model=device.model or "",
        partition=device.partition,
        simulated=device.simulated,
    )
