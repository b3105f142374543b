"""Determines which devices are lost: remembered devices that are missing from complete lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from telemetry_parsers import bounds
from telemetry_parsers.combining import has_address_or_uuid, is_same_slot, slot_of, without_domain
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.merge.identity import NamedDevice
from telemetry_parsers.merge.merge_state import MergeState
from telemetry_parsers.merge.new_devices import REQUIRED_WITNESSES
from telemetry_parsers.model import Identity, Problem

FORGET_AFTER_SECONDS = 7 * 24 * 3600.0
_AddressKey = tuple[str, str | None, str]


@dataclass(frozen=True, slots=True)
class DeviceEvent:
    """An event of a device. Its kind is `appeared`, `lost`, `returned` or `removed`."""

    id: str
    kind: str
    vendor: str
    device: str

    @classmethod
    def from_identity(cls, identity: Identity, kind: str) -> DeviceEvent:
        """Return an event of the device with this identity."""
        return cls(identity.id, kind, identity.vendor, identity.device)


@dataclass(frozen=True, slots=True)
class Presence:
    """The remembered devices and their latest events. `forgotten_counts` are the numbers of devices above the limit."""

    identities: tuple[Identity, ...]
    lost: tuple[Identity, ...]
    events: tuple[DeviceEvent, ...]
    forgotten_counts: Mapping[tuple[str, str], int]  # by (vendor, source)

    @property
    def problems(self) -> tuple[tuple[str, Problem], ...]:
        """Return a problem for each source with too many lost devices."""
        text = (
            f"{{count}} lost {{vendor}} devices were forgotten, because at most {bounds.MAX_LOST} are remembered. "
            "To forget all lost devices, run `telemetry forget --all-lost --vendor {vendor}`."
        )
        return tuple(
            (source, Problem("lost devices", text.format(count=count, vendor=vendor)))
            for (vendor, source), count in self.forgotten_counts.items()
        )


@dataclass(frozen=True, slots=True)
class _DeviceLists:
    """The sources that currently list devices, and the ids of the listed devices."""

    listing_sources: Collection[str]
    numbering_sources: Collection[str]
    listed_ids: Collection[str]
    returned: _ReturnedDevices
    wall_time: float

    def should_contain(self, identity: Identity) -> bool:
        """Return whether the lists would contain this device if it were present."""
        ignored_sources = self.numbering_sources if has_address_or_uuid(identity) else ()
        return any(source in self.listing_sources and source not in ignored_sources for source in identity.listed_by)


class _ReturnedDevices:
    def __init__(self, identities: Iterable[Identity]) -> None:
        self._partitions: set[tuple[str, str | None]] = set()
        self._indices: set[tuple[str, str | None, int | None]] = set()
        self._slots: dict[_AddressKey, list[str]] = {}
        for identity in identities:
            self._partitions.add((identity.vendor, identity.partition))
            self._indices.add((identity.vendor, identity.partition, identity.index))
            if identity.bus_id:
                self._slots.setdefault(_address_key(identity, identity.bus_id), []).append(
                    slot_of(identity.bus_id, identity.partition)
                )

    def may_include(self, identity: Identity) -> bool:
        """Return whether the device was probably one of the returned devices, listed by a garbled line."""
        if not self._partitions:
            return False
        if identity.polls < REQUIRED_WITNESSES:
            if identity.lost_since is None and (identity.vendor, identity.partition) in self._partitions:
                return True
            if (identity.vendor, identity.partition, identity.index) in self._indices:
                return True
        if not identity.bus_id or identity.uuid is None:  # chips without a UUID may share an address
            return False
        slot = slot_of(identity.bus_id, identity.partition)
        return any(
            is_same_slot(returned_slot, slot)
            for returned_slot in self._slots.get(_address_key(identity, identity.bus_id), ())
        )


def _address_key(identity: Identity, bus_id: str) -> _AddressKey:
    return identity.vendor, identity.partition, without_domain(slot_of(bus_id, identity.partition))


def _update_unlisted(
    identity: Identity, lists: _DeviceLists, indices_with_address: Collection[tuple[str, int | None]]
) -> Identity | None:
    """Return the identity of a device that is not listed, or None if the device is to be forgotten."""
    is_missing = lists.should_contain(identity)
    if is_missing and identity.parent is not None and identity.parent in lists.listed_ids:
        return None
    # The device was first published with only an index, and is now listed with an address.
    is_listed_by_address = identity.index is not None and (identity.vendor, identity.index) in indices_with_address
    if is_missing and is_listed_by_address and not has_address_or_uuid(identity):
        return None
    if lists.returned.may_include(identity):
        return None
    if identity.lost_since is not None:
        return identity if lists.wall_time - identity.lost_since < FORGET_AFTER_SECONDS else None
    return replace(identity, lost_since=lists.wall_time) if is_missing else identity


def update(
    state: MergeState,
    devices: Sequence[NamedDevice],
    listing_sources: Collection[str],
    numbering_sources: Collection[str],
    wall_time: float,
) -> Presence:
    """Compare the current lists with the remembered devices, and return the new presence."""
    # `numbering_sources` report indices without addresses. A device with an address can be missing from their lists.
    listed = {device.identity.id: _listed_identity(device) for device in devices}
    previous: Mapping[str, Identity] = {identity.id: identity for identity in state.identities}
    returned = [listed[item.id] for item in state.identities if item.lost_since is not None and item.id in listed]
    lists = _DeviceLists(listing_sources, numbering_sources, listed, _ReturnedDevices(returned), wall_time)
    indices_with_address = {
        (item.vendor, item.index) for item in {**previous, **listed}.values() if has_address_or_uuid(item)
    }
    unlisted = {
        identity.id: _update_unlisted(identity, lists, indices_with_address)
        for identity in state.identities
        if identity.id not in listed
    }
    kept, forgotten_counts = _limit_unlisted(
        [identity for identity in unlisted.values() if identity is not None], state.forgotten_counts
    )
    remembered = {**listed, **{identity.id: identity for identity in kept}}
    events = [DeviceEvent.from_identity(new, "appeared") for key, new in listed.items() if key not in previous]
    events += [DeviceEvent.from_identity(identity, "returned") for identity in returned]
    for key, current in unlisted.items():
        if previous[key].lost_since is None and (
            current is None or (current.lost_since is not None and key in remembered)
        ):
            events.append(DeviceEvent.from_identity(previous[key], "removed" if current is None else "lost"))
    return Presence(
        identities=tuple(remembered.values()),
        lost=tuple(identity for identity in remembered.values() if identity.lost_since is not None),
        events=tuple(events),
        forgotten_counts=forgotten_counts,
    )


def _listed_identity(device: NamedDevice) -> Identity:
    sources = tuple(sorted({sighting.source for sighting in device.group.sightings}))
    return replace(device.identity, listed_by=sources, lost_since=None)


def _limit_unlisted(
    unlisted: Sequence[Identity], forgotten_counts: Mapping[tuple[str, str], int]
) -> tuple[Sequence[Identity], Mapping[tuple[str, str], int]]:
    kept = keep_most_seen(unlisted) if len(unlisted) > bounds.MAX_LOST else unlisted
    if len(kept) == len(unlisted) and not forgotten_counts:
        return kept, {}
    lost_counts = Counter(identity.vendor for identity in kept if identity.lost_since is not None)
    counts = Counter({key: count for key, count in forgotten_counts.items() if lost_counts[key[0]] >= bounds.MAX_LOST})
    ids = {identity.id for identity in kept}
    counts.update((item.vendor, source) for item in unlisted if item.id not in ids for source in item.listed_by[:1])
    return kept, dict(counts)


def keep_most_seen(unlisted: Iterable[Identity]) -> list[Identity]:
    """Return the unlisted devices. Above the limit, return those that were listed most often."""
    kept_counts: Counter[tuple[str, bool]] = Counter()
    kept: list[Identity] = []
    for identity in sorted(unlisted, key=lambda identity: (-identity.polls, identity.lost_since or 0.0)):
        is_lost = identity.lost_since is not None
        limit = bounds.MAX_LOST if is_lost else bounds.MAX_UNKNOWN
        if kept_counts[identity.vendor, is_lost] < limit and len(kept) < bounds.MAX_REMEMBERED:
            kept_counts[identity.vendor, is_lost] += 1
            kept.append(identity)
    return kept


def shift_loss_times(
    identities: Iterable[Identity], period: tuple[float, float], seconds: float
) -> tuple[Identity, ...]:
    """Shift the loss times within `period` (start, end) by `seconds`, because the clock was set."""
    start, end = period
    return tuple(
        replace(identity, lost_since=identity.lost_since + seconds)
        if identity.lost_since is not None and start <= identity.lost_since <= end
        else identity
        for identity in identities
    )
