"""Whether a remembered device is there: 1, 0 when a list lacks it, nothing when nobody knows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from telemetry_parsers.merge.identity import Named
from telemetry_parsers.model import Identity

FORGET_AFTER_SECONDS = 7 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class DeviceEvent:
    """What became of a device: `appeared`, `lost`, `returned` or `removed` (a partition that was taken away)."""

    id: str
    what: str


@dataclass(frozen=True, slots=True)
class Presence:
    """What is remembered now, which of it is lost, and what has changed."""

    identities: tuple[Identity, ...]
    lost: tuple[Identity, ...]
    events: tuple[DeviceEvent, ...]


def _seen(named: Named) -> Identity:
    sources = tuple(sorted({sighting.source for sighting in named.group.sightings}))
    return replace(named.identity, listed_by=sources, lost_since=None)


def _missing(
    identity: Identity, listing_sources: Collection[str], present: Collection[str], wall: float
) -> Identity | None:
    """The identity as it stands while no list has it; None when it is to be forgotten."""
    somebody_knows = any(source in listing_sources for source in identity.listed_by)
    if somebody_knows and identity.parent is not None and identity.parent in present:
        return None
    if identity.lost_since is not None:
        return identity if wall - identity.lost_since < FORGET_AFTER_SECONDS else None
    return replace(identity, lost_since=wall) if somebody_knows else identity


def update(
    identities: Iterable[Identity],
    named: Sequence[Named],
    listing_sources: Collection[str],
    wall: float,
) -> Presence:
    """The identities after one more look; `listing_sources` are those with a fresh list of devices."""
    seen = {item.identity.id: _seen(item) for item in named}
    before: Mapping[str, Identity] = {identity.id: identity for identity in identities}
    after = dict(seen)
    events = [DeviceEvent(new, "appeared") for new in seen if new not in before]
    for known_id, identity in before.items():
        was_lost = identity.lost_since is not None
        if known_id in seen:
            events += [DeviceEvent(known_id, "returned")] if was_lost else []
            continue
        now = _missing(identity, listing_sources, seen, wall)
        if now is not None:
            after[known_id] = now
        if not was_lost and (now is None or now.lost_since is not None):
            events.append(DeviceEvent(known_id, "removed" if now is None else "lost"))
    lost = tuple(identity for identity in after.values() if identity.lost_since is not None)
    return Presence(tuple(after.values()), lost, tuple(events))
