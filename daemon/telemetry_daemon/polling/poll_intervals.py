"""Computes the interval of a poll, and tracks released sources."""

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

# A missing library or device may appear later.
LOOK_AGAIN_SECONDS = 60.0
INVENTORY_SECONDS = 300.0
# A later version of the tool may support the poll.
UNSUPPORTED_SECONDS = 3600.0
# A tool that is needed is polled fast for at least this long.
MIN_FAST_SECONDS = 300.0
# The minimum interval at which an outdated device list is polled again.
LIST_AGAIN_SECONDS = 15.0
# These fast polls make calls that are expensive in the driver.
_EXPENSIVE_POLLS = frozenset({COUNTERS, "gpm"})
_STATES_WITHOUT_DEVICES: frozenset[State] = frozenset({"missing", "not_mine", "no_devices"})


@dataclass(frozen=True, slots=True)
class FastPollNeed:
    """Whether an expensive tool must be polled fast, and the time of the last change."""

    is_needed: bool = True
    changed_at: float = float("-inf")


def base_interval(poll: Poll, settings: SourceSettings) -> float:
    """Return the seconds between successful polls."""
    if settings.interval is not None and poll.tier == "fast":
        return max(settings.interval, poll.interval if poll.name in _EXPENSIVE_POLLS else 0.0)
    return poll.interval


def deadline(poll: Poll, settings: SourceSettings) -> float:
    """Return the seconds that a poll may take."""
    return settings.deadline if settings.deadline is not None else poll.deadline


def max_round_seconds(sources: Iterable[tuple[Parser, SourceSettings]]) -> float:
    """Return the longest possible time for one round of polls."""
    return max((sum(deadline(poll, settings) for poll in parser.polls) for parser, settings in sources), default=0.0)


def current_interval(poll: Poll, settings: SourceSettings, state: State | None, need: FastPollNeed) -> float:
    """Return the seconds until the next poll of a source in this state."""
    interval = base_interval(poll, settings)
    if state == "not_supported":
        return max(interval, LOOK_AGAIN_SECONDS if poll.lists_devices else UNSUPPORTED_SECONDS)
    # Looking for a tool is cheap, but looking for a library starts a process.
    if state in _STATES_WITHOUT_DEVICES and not (state == "missing" and isinstance(poll.request, Command)):
        interval = max(interval, LOOK_AGAIN_SECONDS)
    if poll.tier == "fast" and (settings.mode == "inventory" or (settings.mode == "auto" and not need.is_needed)):
        interval = max(interval, INVENTORY_SECONDS)
    return interval


def runs_tool(polls: Iterable[Poll]) -> bool:
    """Return whether any of these polls runs a tool."""
    return any(isinstance(poll.request, Command) for poll in polls)


def is_covered(snapshot: Snapshot, source: str, vendor: str) -> bool:
    """Return whether sources other than `source` report all core readings of a vendor."""
    origins: set[str] = set()
    for device in snapshot.devices:
        if device.vendor == vendor:
            origins |= _core_origins(Readings.of(device.readings))
    return bool(origins) and source not in origins


def _core_origins(readings: Readings) -> set[str]:
    shape = readings.shape
    origin_indices = {
        origin
        for (metric, _), value, origin in zip(shape.keys, readings.values, shape.origins, strict=True)
        if metric in CORE_KEYS and not isinstance(value, Absent)
    }
    return {readings.origins[index].source for index in origin_indices}


def updated_need(need: FastPollNeed, mode: Mode, *, is_covered: bool, now: float) -> FastPollNeed:
    """Return the current need for fast polls. There is no need while cheaper sources report all core readings."""
    if mode != "auto" or need.is_needed != is_covered:
        return need
    if is_covered and now - need.changed_at < MIN_FAST_SECONDS:
        return need
    return FastPollNeed(not is_covered, now)


class Releases:
    """The sources that the operator has released for a time. Thread-safe."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._ends_by_source: dict[str, float] = {}

    def release(self, source: str, duration_seconds: float = math.inf) -> None:
        """Release a source for this duration, by default until it is resumed."""
        with self._lock:
            self._ends_by_source[source] = self._monotonic() + duration_seconds

    def resume(self, source: str) -> bool:
        """End a release, and return whether the source was released."""
        with self._lock:
            return self._ends_by_source.pop(source, -math.inf) > self._monotonic()

    def release_text(self, source: str) -> str:
        """Return a text about how long the source remains released, or "" if it is not released."""
        with self._lock:
            remaining = self._ends_by_source.get(source, -math.inf) - self._monotonic()
            if remaining <= 0:
                self._ends_by_source.pop(source, None)
                return ""
        if remaining == math.inf:
            return f"released by the operator until 'telemetry resume {source}'"
        return f"released by the operator for another {math.ceil(remaining)} s, or until 'telemetry resume {source}'"
