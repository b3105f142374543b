"""Whether a remembered device is there: 1, 0 when a list lacks it, nothing when nobody knows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from telemetry_parsers.merge.devices import is_told
from telemetry_parsers.merge.identity import Named
from telemetry_parsers.model import Identity

FORGET_AFTER_SECONDS = 7 * 24 * 3600.0


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
    """What is remembered now, which of it is lost, and what has changed."""

    identities: tuple[Identity, ...]
    lost: tuple[Identity, ...]
    events: tuple[DeviceEvent, ...]


def _seen(named: Named) -> Identity:
    sources = tuple(sorted({sighting.source for sighting in named.group.sightings}))
    return replace(named.identity, listed_by=sources, lost_since=None)


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at the node: who has a list, whose lists tell numbers only, who is seen, and the time."""

    listing_sources: Collection[str]
    numbering_sources: Collection[str]
    seen: Collection[str]
    wall: float

    def is_told_of(self, identity: Identity) -> bool:
        """Whether some list would have the device if it were there."""
        says_nothing = self.numbering_sources if is_told(identity) else ()
        return any(source in self.listing_sources and source not in says_nothing for source in identity.listed_by)


def _missing(identity: Identity, look: _Look, addressed: Collection[tuple[str, int | None]]) -> Identity | None:
    """The identity as it stands while no list has it; None when it is to be forgotten."""
    somebody_knows = look.is_told_of(identity)
    if somebody_knows and identity.parent is not None and identity.parent in look.seen:
        return None
    # One that had to be called by its number for a while, since its address came late: it goes by that now.
    goes_by_address = identity.index is not None and (identity.vendor, identity.index) in addressed
    if somebody_knows and goes_by_address and not is_told(identity):
        return None
    if identity.lost_since is not None:
        return identity if look.wall - identity.lost_since < FORGET_AFTER_SECONDS else None
    return replace(identity, lost_since=look.wall) if somebody_knows else identity


def update(
    identities: Iterable[Identity],
    named: Sequence[Named],
    listing_sources: Collection[str],
    numbering_sources: Collection[str],
    wall: float,
) -> Presence:
    """The identities after one more look.

    `listing_sources` are those with a fresh list of devices, `numbering_sources` those of them that tell numbers only:
    which device that was known by its address is not among them cannot be seen by these.
    """
    seen = {item.identity.id: _seen(item) for item in named}
    before: Mapping[str, Identity] = {identity.id: identity for identity in identities}
    look = _Look(listing_sources, numbering_sources, seen, wall)
    addressed = {(one.vendor, one.index) for one in {**before, **seen}.values() if is_told(one)}
    after = dict(seen)
    events = [DeviceEvent.of(new, "appeared") for known_id, new in seen.items() if known_id not in before]
    for known_id, identity in before.items():
        was_lost = identity.lost_since is not None
        if known_id in seen:
            events += [DeviceEvent.of(seen[known_id], "returned")] if was_lost else []
            continue
        now = _missing(identity, look, addressed)
        if now is not None:
            after[known_id] = now
        if not was_lost and (now is None or now.lost_since is not None):
            events.append(DeviceEvent.of(identity, "removed" if now is None else "lost"))
    lost = tuple(identity for identity in after.values() if identity.lost_since is not None)
    return Presence(tuple(after.values()), lost, tuple(events))
