"""What telemetry told of cards over time, and what of it lies in the seconds of a profile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from telemetry_profile.facts.file_facts import Card
from telemetry_profile.verdict.then import Match, Spread, Then

# A step is shorter than the time between two polls: then the nearest sample tells.
NEAREST_SECONDS = 15.0
_MOST_ERRORS = 10


@dataclass(frozen=True, slots=True)
class Moment:
    """A card at one time; None for what was not told. `throttled` has the reasons that held at that time, None where none are told."""

    time: float
    clock: float | None = None
    temperature: float | None = None
    power: float | None = None
    throttled: frozenset[str] | None = None


@dataclass(slots=True)
class Track:
    """One card of one node. `errors` are times with sentences."""

    node: str
    device: str
    model: str = ""
    uuid: str = ""
    bus_id: str = ""
    rank: str = ""
    clock_max: float | None = None
    power_cap: float | None = None
    moments: list[Moment] = field(default_factory=list)
    errors: list[tuple[float, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A card of the profile, and its seconds; times are Unix seconds."""

    card: Card
    rank: int | None
    begin: float
    end: float


def then_of(wanted: Wanted, tracks: Sequence[Track]) -> Then | None:
    """What was told of the card in these seconds; None where no card fits, or nothing was told then."""
    for match, fits in _WAYS:
        found = [track for track in tracks if fits(wanted, track)]
        if len(found) == 1:
            return _told(wanted, found[0], match)
        if found:  # several nodes have such a card: nobody knows which is meant
            return None
    return None


def _same_uuid(wanted: Wanted, track: Track) -> bool:
    return bool(wanted.card.uuid) and _bare(wanted.card.uuid) == _bare(track.uuid)


def _same_bus_id(wanted: Wanted, track: Track) -> bool:
    return bool(wanted.card.bus_id) and wanted.card.bus_id.lower()[-12:] == track.bus_id.lower()[-12:]


def _same_rank(wanted: Wanted, track: Track) -> bool:
    return wanted.rank is not None and track.rank == str(wanted.rank)


def _same_index(wanted: Wanted, track: Track) -> bool:
    """The number of the card among those of the job, which may be another's among those of the node."""
    known = wanted.card.uuid or wanted.card.bus_id  # then it is known that none of these cards is meant
    return not known and wanted.card.index is not None and track.device == str(wanted.card.index)


_WAYS: tuple[tuple[Match, Callable[[Wanted, Track], bool]], ...] = (
    ("uuid", _same_uuid),
    ("bus_id", _same_bus_id),
    ("rank", _same_rank),
    ("index", _same_index),
)


def _bare(uuid: str) -> str:
    return uuid.lower().removeprefix("gpu-").removeprefix("mlu-")


def _told(wanted: Wanted, track: Track, match: Match) -> Then | None:
    moments = _within(wanted, track.moments)
    if not moments:
        return None
    return Then(
        device=f"{track.node} {track.device}".strip(),
        model=track.model,
        matched_by=match,
        samples=len(moments),
        clock_hertz=_spread([one.clock for one in moments]),
        clock_max_hertz=track.clock_max,
        temperature_celsius=_spread([one.temperature for one in moments]),
        power_watts=_spread([one.power for one in moments]),
        power_cap_watts=track.power_cap,
        throttled_seconds=_throttled(moments, wanted.end - wanted.begin),
        errors=tuple(text for time, text in track.errors if wanted.begin - 1 <= time <= wanted.end + 1)[:_MOST_ERRORS],
    )


def _within(wanted: Wanted, moments: Sequence[Moment]) -> list[Moment]:
    """The moments in the seconds; where there is none, the nearest one that is near enough."""
    inside = [one for one in moments if wanted.begin <= one.time <= wanted.end]
    if inside or not moments:
        return inside
    nearest = min(moments, key=lambda one: max(wanted.begin - one.time, one.time - wanted.end))
    return [nearest] if max(wanted.begin - nearest.time, nearest.time - wanted.end) <= NEAREST_SECONDS else []


def _spread(values: Sequence[float | None]) -> Spread | None:
    told = [value for value in values if value is not None]
    return Spread(min(told), sum(told) / len(told), max(told)) if told else None


def _throttled(moments: Sequence[Moment], seconds: float) -> tuple[tuple[str, float], ...]:
    """Each reason with its part of the seconds, the longest first."""
    told = [one.throttled for one in moments if one.throttled is not None]
    reasons = {reason for each in told for reason in each}
    parts = ((reason, seconds * sum(reason in each for each in told) / len(told)) for reason in reasons)
    return tuple(sorted(parts, key=lambda part: (-part[1], part[0])))
