"""Computes when a poll is due, from its tier, mode, state and cheaper sources. Keeps the sources released by the operator."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable

from telemetry_daemon.config.settings import Mode, SourceSettings
from telemetry_parsers.contract import COUNTERS, Parser
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.metrics import CORE_KEYS
from telemetry_parsers.model import Absent, Command, Poll, Snapshot, State
from telemetry_parsers.readings import Readings

# A missing library or device is looked for once a minute: a driver may be installed later.
LOOK_AGAIN_SECONDS = 60.0
INVENTORY_SECONDS = 300.0
# A later version may support an unsupported poll. Device lists are tried sooner.
LEARNT_AFTER_SECONDS = 3600.0
CHANGE_MODE_AFTER_SECONDS = 300.0
# A source with an outdated list is polled early, but no more often than a tool's interval.
LIST_AGAIN_SECONDS = 15.0
# Fast polls that are slow in the driver.
_SELDOM = frozenset({COUNTERS, "gpm"})
_QUIET: frozenset[State] = frozenset({"missing", "not_mine", "no_devices"})


@dataclass(frozen=True, slots=True)
class Need:
    """Whether an expensive tool's fast polls are needed, and since when."""

    needed: bool = True
    since: float = float("-inf")


def base_interval(poll: Poll, settings: SourceSettings) -> float:
    """Return the seconds between two successful polls. `interval` sets the fast tier, and may only slow down counters."""
    if settings.interval is not None and poll.tier == "fast":
        return max(settings.interval, poll.interval if poll.name in _SELDOM else 0.0)
    return poll.interval


def deadline(poll: Poll, settings: SourceSettings) -> float:
    """Return the seconds that a poll may take."""
    return settings.deadline if settings.deadline is not None else poll.deadline


def round_seconds(sources: Iterable[tuple[Parser, SourceSettings]]) -> float:
    """Return the seconds that a round of all polls may take: the polls of a source run one after the other."""
    return max((sum(deadline(poll, settings) for poll in parser.polls) for parser, settings in sources), default=0.0)


def interval_now(poll: Poll, settings: SourceSettings, state: State | None, need: Need) -> float:
    """Return the seconds between two polls in this state."""
    interval = base_interval(poll, settings)
    # Looking for a tool takes a few stat calls; looking for a library starts a process.
    if state == "not_supported":
        return max(interval, LOOK_AGAIN_SECONDS if poll.lists_devices else LEARNT_AFTER_SECONDS)
    if state in _QUIET and not (state == "missing" and isinstance(poll.request, Command)):
        interval = max(interval, LOOK_AGAIN_SECONDS)
    if poll.tier == "fast" and (settings.mode == "inventory" or (settings.mode == "auto" and not need.needed)):
        interval = max(interval, INVENTORY_SECONDS)
    return interval


def is_expensive(polls: Iterable[Poll]) -> bool:
    """Return whether a source runs a tool, so that a library or files with the same values are preferred."""
    return any(isinstance(poll.request, Command) for poll in polls)


def is_covered(snapshot: Snapshot, source: str, vendor: str) -> bool:
    """Return whether other sources report all core readings of the vendor's devices, and this source reports none."""
    origins: set[str] = set()
    for device in snapshot.devices:
        if device.vendor == vendor:
            origins |= _core_origins(Readings.of(device.readings))
    return bool(origins) and source not in origins


def _core_origins(readings: Readings) -> set[str]:
    shape = readings.shape
    positions = {
        origin
        for (metric, _), value, origin in zip(shape.keys, readings.values, shape.origins, strict=True)
        if metric in CORE_KEYS and not isinstance(value, Absent)
    }
    return {readings.origins[position].source for position in positions}


def reconsider(need: Need, mode: Mode, *, covered: bool, now: float) -> Need:
    """Return the updated need: it starts at once when readings are missing, and ends after five minutes or more."""
    if mode != "auto" or need.needed != covered:
        return need
    if covered and now - need.since < CHANGE_MODE_AFTER_SECONDS:
        return need
    return Need(not covered, now)


class Releases:
    """The released sources. Safe to use from any thread; times are monotonic seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._until: dict[str, float] = {}

    def release(self, source: str, seconds: float = math.inf) -> None:
        """Release a source for this many seconds from now, even if it is already released."""
        with self._lock:
            self._until[source] = self._monotonic() + seconds

    def resume(self, source: str) -> bool:
        """End the release. Return False if the source was not released."""
        with self._lock:
            return self._until.pop(source, -math.inf) > self._monotonic()

    def text_of(self, source: str) -> str:
        """Return why a released source is not polled, or an empty text."""
        with self._lock:
            left = self._until.get(source, -math.inf) - self._monotonic()
            if left <= 0:
                self._until.pop(source, None)
                return ""
        if left == math.inf:
            return f"released by the operator until 'telemetry resume {source}'"
        return f"released by the operator for {math.ceil(left)} s more, or until 'telemetry resume {source}'"
