"""Whether a remembered device is there: up is 1, 0 if a whole list lacks it, and None if nobody knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from telemetry_parsers import bounds
from telemetry_parsers.combining import has_address_or_uuid, same_slot, slot_of, without_domain
from telemetry_parsers.merge import doubts
from telemetry_parsers.merge.identity import Named
from telemetry_parsers.merge.memory import MergeState
from telemetry_parsers.model import Identity, Problem

FORGET_AFTER_SECONDS = 7 * 24 * 3600.0
_Place = tuple[str, str | None, str]


@dataclass(frozen=True, slots=True)
class DeviceEvent:
    """What became of a device: `appeared`, `lost`, `returned` or `removed` (a partition that was taken away)."""

    id: str
    what: str
    vendor: str
    device: str

    @classmethod
    def of(cls, identity: Identity, what: str) -> DeviceEvent:
        """What became of the device with that identity."""
        return cls(identity.id, what, identity.vendor, identity.device)


@dataclass(frozen=True, slots=True)
class Presence:
    """The remembered devices, those of them that are lost, what has changed, and how many were too many to remember.

    `forgotten` counts by vendor and source, as long as there is no room for more lost devices of the vendor.
    """

    identities: tuple[Identity, ...]
    lost: tuple[Identity, ...]
    events: tuple[DeviceEvent, ...]
    forgotten: Mapping[tuple[str, str], int]

    @property
    def problems(self) -> tuple[tuple[str, Problem], ...]:
        """A problem for each source whose lost devices were forgotten for lack of room."""
        text = (
            f"{{count}} lost devices of {{vendor}} were forgotten, those that were seen least: no more than "
            f"{bounds.MOST_LOST} are remembered; `telemetry forget --all-lost --vendor {{vendor}}` makes room"
        )
        return tuple(
            (source, Problem("lost devices", text.format(count=count, vendor=vendor)))
            for (vendor, source), count in self.forgotten.items()
        )


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at the node: the sources with a list, those whose lists are bare numbers, the devices seen, the time."""

    listing_sources: Collection[str]
    numbering_sources: Collection[str]
    seen: Collection[str]
    returned: _Returned
    wall: float

    def would_be_listed(self, identity: Identity) -> bool:
        """Whether some list would have the device if it were there."""
        says_nothing = self.numbering_sources if has_address_or_uuid(identity) else ()
        return any(source in self.listing_sources and source not in says_nothing for source in identity.listed_by)


class _Returned:
    """The devices that have come back in this look. What was shown in their places meanwhile was a misreading of them."""

    def __init__(self, identities: Iterable[Identity]) -> None:
        self._kinds: set[tuple[str, str | None]] = set()
        self._numbers: set[tuple[str, str | None, int | None]] = set()
        self._places: dict[_Place, list[str]] = {}
        for one in identities:
            self._kinds.add((one.vendor, one.partition))
            self._numbers.add((one.vendor, one.partition, one.index))
            if one.bus_id:
                self._places.setdefault(_place(one, one.bus_id), []).append(slot_of(one.bus_id, one.partition))

    def takes_place_of(self, identity: Identity) -> bool:
        """Whether a missing device goes for good, because a returned one has its place again.

        A device that was reported only once also goes when any device of its kind returns, or one with its number.
        """
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
        return any(same_slot(each, slot) for each in self._places.get(_place(identity, identity.bus_id), ()))


def _place(identity: Identity, bus_id: str) -> _Place:
    return identity.vendor, identity.partition, without_domain(slot_of(bus_id, identity.partition))


def _missing(identity: Identity, look: _Look, addressed: Collection[tuple[str, int | None]]) -> Identity | None:
    """The identity of a device that no list has; None if it is to be forgotten."""
    somebody_knows = look.would_be_listed(identity)
    if somebody_knows and identity.parent is not None and identity.parent in look.seen:
        return None
    # It was published under its number since its address came late; now it is listed under its address.
    goes_by_address = identity.index is not None and (identity.vendor, identity.index) in addressed
    if somebody_knows and goes_by_address and not has_address_or_uuid(identity):
        return None
    if look.returned.takes_place_of(identity):
        return None
    if identity.lost_since is not None:
        return identity if look.wall - identity.lost_since < FORGET_AFTER_SECONDS else None
    return replace(identity, lost_since=look.wall) if somebody_knows else identity


def update(
    state: MergeState,
    named: Sequence[Named],
    listing_sources: Collection[str],
    numbering_sources: Collection[str],
    wall: float,
) -> Presence:
    """The identities after one more look.

    `listing_sources` have a fresh list of devices. `numbering_sources` are those of them whose lists are bare numbers:
    such a list cannot show that a device known by its address is missing.
    """
    seen = {item.identity.id: _seen(item) for item in named}
    before: Mapping[str, Identity] = {identity.id: identity for identity in state.identities}
    returned = [seen[one.id] for one in state.identities if one.lost_since is not None and one.id in seen]
    look = _Look(listing_sources, numbering_sources, seen, _Returned(returned), wall)
    addressed = {(one.vendor, one.index) for one in {**before, **seen}.values() if has_address_or_uuid(one)}
    missing = {one.id: _missing(one, look, addressed) for one in state.identities if one.id not in seen}
    kept, forgotten = _within_bounds([one for one in missing.values() if one is not None], state.forgotten)
    after = {**seen, **{one.id: one for one in kept}}
    events = [DeviceEvent.of(new, "appeared") for known_id, new in seen.items() if known_id not in before]
    events += [DeviceEvent.of(one, "returned") for one in returned]
    for known_id, now in missing.items():
        if before[known_id].lost_since is None and (now is None or (now.lost_since is not None and known_id in after)):
            events.append(DeviceEvent.of(before[known_id], "removed" if now is None else "lost"))
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
    """The missing devices that are still remembered, and how many were forgotten for lack of room."""
    kept = remembered(missing) if len(missing) > bounds.MOST_LOST else missing
    if len(kept) == len(missing) and not forgotten:
        return kept, {}
    lost = Counter(one.vendor for one in kept if one.lost_since is not None)
    counts = Counter({key: count for key, count in forgotten.items() if lost[key[0]] >= bounds.MOST_LOST})
    ids = {one.id for one in kept}
    counts.update((one.vendor, source) for one in missing if one.id not in ids for source in one.listed_by[:1])
    return kept, dict(counts)


def remembered(missing: Iterable[Identity]) -> list[Identity]:
    """The missing devices for which there is room: first those seen in the most polls, then those lost the longest."""
    room: dict[tuple[str, bool], int] = {}
    kept: list[Identity] = []
    for one in sorted(missing, key=lambda one: (-one.polls, one.lost_since or 0.0)):
        key = (one.vendor, one.lost_since is not None)
        left = room.setdefault(key, bounds.MOST_LOST if one.lost_since is not None else bounds.MOST_UNKNOWN)
        if left > 0 and len(kept) < bounds.MOST_REMEMBERED:
            room[key] = left - 1
            kept.append(one)
    return kept


def with_losses_moved(
    identities: Iterable[Identity], between: tuple[float, float], seconds: float
) -> tuple[Identity, ...]:
    """The identities after the time of day was set: devices that were lost between these times were lost that much later."""
    first, last = between
    return tuple(
        replace(one, lost_since=one.lost_since + seconds)
        if one.lost_since is not None and first <= one.lost_since <= last
        else one
        for one in identities
    )
