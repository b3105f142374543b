"""Presence of remembered devices: up is 1, 0 if missing from a complete list, and None if unknown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from telemetry_parsers import bounds
from telemetry_parsers.combining import has_address_or_uuid, same_slot, slot_of, without_domain
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.merge import doubts
from telemetry_parsers.merge.identity import Named
from telemetry_parsers.merge.memory import MergeState
from telemetry_parsers.model import Identity, Problem

FORGET_AFTER_SECONDS = 7 * 24 * 3600.0
_Address = tuple[str, str | None, str]


@dataclass(frozen=True, slots=True)
class DeviceEvent:
    """A change of a device: `appeared`, `lost`, `returned` or `removed` (a partition that was deleted)."""

    id: str
    what: str
    vendor: str
    device: str

    @classmethod
    def of(cls, identity: Identity, what: str) -> DeviceEvent:
        """Return the event of the device with that identity."""
        return cls(identity.id, what, identity.vendor, identity.device)


@dataclass(frozen=True, slots=True)
class Presence:
    """The remembered devices, the lost ones, events, and how many were forgotten for lack of room, by vendor and source."""

    identities: tuple[Identity, ...]
    lost: tuple[Identity, ...]
    events: tuple[DeviceEvent, ...]
    forgotten: Mapping[tuple[str, str], int]

    @property
    def problems(self) -> tuple[tuple[str, Problem], ...]:
        """Return a problem for each source whose lost devices were forgotten for lack of room."""
        text = (
            f"{{count}} lost devices of {{vendor}} were forgotten, starting with those seen least: at most "
            f"{bounds.MOST_LOST} are remembered; `telemetry forget --all-lost --vendor {{vendor}}` makes room"
        )
        return tuple(
            (source, Problem("lost devices", text.format(count=count, vendor=vendor)))
            for (vendor, source), count in self.forgotten.items()
        )


@dataclass(frozen=True, slots=True)
class _Look:
    """One round of lists: sources with a list, sources whose lists have only numbers, the devices seen, the time."""

    listing_sources: Collection[str]
    numbering_sources: Collection[str]
    seen: Collection[str]
    returned: _Returned
    wall: float

    def would_be_listed(self, identity: Identity) -> bool:
        """Return whether a list would contain the device if the device were present."""
        uninformative = self.numbering_sources if has_address_or_uuid(identity) else ()
        return any(source in self.listing_sources and source not in uninformative for source in identity.listed_by)


class _Returned:
    """Devices that returned in this round. Other devices reported in their slots meanwhile were misread."""

    def __init__(self, identities: Iterable[Identity]) -> None:
        self._kinds: set[tuple[str, str | None]] = set()
        self._numbers: set[tuple[str, str | None, int | None]] = set()
        self._slots: dict[_Address, list[str]] = {}
        for identity in identities:
            self._kinds.add((identity.vendor, identity.partition))
            self._numbers.add((identity.vendor, identity.partition, identity.index))
            if identity.bus_id:
                self._slots.setdefault(_address(identity, identity.bus_id), []).append(
                    slot_of(identity.bus_id, identity.partition)
                )

    def replaces(self, identity: Identity) -> bool:
        """Return whether a returned device has the missing device's slot (or, after a single report, its kind or index)."""
        if not self._kinds:
            return False
        if identity.polls < doubts.ENOUGH_WITNESSES:
            if identity.lost_since is None and (identity.vendor, identity.partition) in self._kinds:
                return True
            if (identity.vendor, identity.partition, identity.index) in self._numbers:
                return True
        if not identity.bus_id or identity.uuid is None:  # chips of one card may share its address
            return False
        slot = slot_of(identity.bus_id, identity.partition)
        return any(
            same_slot(returned_slot, slot) for returned_slot in self._slots.get(_address(identity, identity.bus_id), ())
        )


def _address(identity: Identity, bus_id: str) -> _Address:
    return identity.vendor, identity.partition, without_domain(slot_of(bus_id, identity.partition))


def _missing(identity: Identity, look: _Look, addressed: Collection[tuple[str, int | None]]) -> Identity | None:
    """Return the identity of a device missing from all lists, or None if it is to be forgotten."""
    is_missing = look.would_be_listed(identity)
    if is_missing and identity.parent is not None and identity.parent in look.seen:
        return None
    # The device was published under its index because its address was read late. Now it is listed under its address.
    goes_by_address = identity.index is not None and (identity.vendor, identity.index) in addressed
    if is_missing and goes_by_address and not has_address_or_uuid(identity):
        return None
    if look.returned.replaces(identity):
        return None
    if identity.lost_since is not None:
        return identity if look.wall - identity.lost_since < FORGET_AFTER_SECONDS else None
    return replace(identity, lost_since=look.wall) if is_missing else identity


def update(
    state: MergeState,
    named: Sequence[Named],
    listing_sources: Collection[str],
    numbering_sources: Collection[str],
    wall: float,
) -> Presence:
    """Return the identities after one more round of lists.

    `listing_sources` have a fresh list of devices. `numbering_sources` are those of them whose lists are bare numbers:
    such a list cannot show that a device known by its address is missing.
    """
    seen = {item.identity.id: _seen(item) for item in named}
    before: Mapping[str, Identity] = {identity.id: identity for identity in state.identities}
    returned = [
        seen[identity.id] for identity in state.identities if identity.lost_since is not None and identity.id in seen
    ]
    look = _Look(listing_sources, numbering_sources, seen, _Returned(returned), wall)
    addressed = {
        (identity.vendor, identity.index) for identity in {**before, **seen}.values() if has_address_or_uuid(identity)
    }
    missing = {
        identity.id: _missing(identity, look, addressed) for identity in state.identities if identity.id not in seen
    }
    kept, forgotten = _within_bounds(
        [identity for identity in missing.values() if identity is not None], state.forgotten
    )
    after = {**seen, **{identity.id: identity for identity in kept}}
    events = [DeviceEvent.of(new, "appeared") for key, new in seen.items() if key not in before]
    events += [DeviceEvent.of(identity, "returned") for identity in returned]
    for key, now in missing.items():
        if before[key].lost_since is None and (now is None or (now.lost_since is not None and key in after)):
            events.append(DeviceEvent.of(before[key], "removed" if now is None else "lost"))
    return Presence(
        identities=tuple(after.values()),
        lost=tuple(identity for identity in after.values() if identity.lost_since is not None),
        events=tuple(events),
        forgotten=forgotten,
    )


def _seen(named: Named) -> Identity:
    sources = tuple(sorted({sighting.source for sighting in named.group.sightings}))
    return replace(named.identity, listed_by=sources, lost_since=None)


def _within_bounds(
    missing: Sequence[Identity], forgotten: Mapping[tuple[str, str], int]
) -> tuple[Sequence[Identity], Mapping[tuple[str, str], int]]:
    """Return the missing devices to remember, and the count of those forgotten for lack of room."""
    kept = remembered(missing) if len(missing) > bounds.MOST_LOST else missing
    if len(kept) == len(missing) and not forgotten:
        return kept, {}
    lost = Counter(identity.vendor for identity in kept if identity.lost_since is not None)
    counts = Counter({key: count for key, count in forgotten.items() if lost[key[0]] >= bounds.MOST_LOST})
    ids = {identity.id for identity in kept}
    counts.update(
        (identity.vendor, source) for identity in missing if identity.id not in ids for source in identity.listed_by[:1]
    )
    return kept, dict(counts)


def remembered(missing: Iterable[Identity]) -> list[Identity]:
    """Return the missing devices for which there is room: those seen most often first, then those lost longest."""
    room: dict[tuple[str, bool], int] = {}
    kept: list[Identity] = []
    for identity in sorted(missing, key=lambda identity: (-identity.polls, identity.lost_since or 0.0)):
        key = (identity.vendor, identity.lost_since is not None)
        left = room.setdefault(key, bounds.MOST_LOST if identity.lost_since is not None else bounds.MOST_UNKNOWN)
        if left > 0 and len(kept) < bounds.MOST_REMEMBERED:
            room[key] = left - 1
            kept.append(identity)
    return kept


def with_losses_moved(
    identities: Iterable[Identity], between: tuple[float, float], seconds: float
) -> tuple[Identity, ...]:
    """Return the identities after the clock was set: losses between these times are moved by `seconds`."""
    first, last = between
    return tuple(
        replace(identity, lost_since=identity.lost_since + seconds)
        if identity.lost_since is not None and first <= identity.lost_since <= last
        else identity
        for identity in identities
    )
