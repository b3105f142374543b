"""When a poll is due: pure rules from its tier, mode, state and what cheaper sources already give."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from telemetry_daemon.config.settings import Mode, SourceSettings
from telemetry_parsers.metrics import CORE_KEYS
from telemetry_parsers.model import Absent, Command, Poll, Snapshot, State

# What is not there, or has nothing to say, is asked once a minute: a driver may be installed later.
LOOK_AGAIN_SECONDS = 60.0
INVENTORY_SECONDS = 300.0
# What a version or product does not know, a later one may. The list of devices is worth asking for sooner.
LEARNT_AFTER_SECONDS = 3600.0
CHANGE_MODE_AFTER_SECONDS = 300.0
# A source whose list may be out of date is asked out of turn, but not more often than a tool is by itself.
LIST_AGAIN_SECONDS = 15.0
_QUIET: frozenset[State] = frozenset({"missing", "not_mine", "no_devices"})


@dataclass(frozen=True, slots=True)
class Need:
    """Whether an expensive tool's fast polls are needed, and since when that is so."""

    needed: bool = True
    since: float = float("-inf")


def base_interval(poll: Poll, settings: SourceSettings) -> float:
    """The seconds between two polls when all is well; the setting is for the fast tier."""
    if settings.interval is not None and poll.tier == "fast":
        return settings.interval
    return poll.interval


def deadline(poll: Poll, settings: SourceSettings) -> float:
    """The seconds that a poll may take."""
    return settings.deadline if settings.deadline is not None else poll.deadline


def interval_now(poll: Poll, settings: SourceSettings, state: State | None, need: Need) -> float:
    """The seconds between two polls as things stand."""
    interval = base_interval(poll, settings)
    # To look whether a tool has come is a few stat calls; to look for a library starts a process.
    if state == "not_supported":
        return max(interval, LOOK_AGAIN_SECONDS if poll.lists_devices else LEARNT_AFTER_SECONDS)
    if state in _QUIET and not (state == "missing" and isinstance(poll.request, Command)):
        interval = max(interval, LOOK_AGAIN_SECONDS)
    if poll.tier == "fast" and (settings.mode == "inventory" or (settings.mode == "auto" and not need.needed)):
        interval = max(interval, INVENTORY_SECONDS)
    return interval


def is_expensive(polls: Iterable[Poll]) -> bool:
    """Whether a source runs a tool, so that a cheaper door to the same numbers is to be preferred."""
    return any(isinstance(poll.request, Command) for poll in polls)


def is_covered(snapshot: Snapshot, source: str, vendor: str) -> bool:
    """Whether cheaper sources give core readings of the vendor's devices, and this one gives none that they lack."""
    origins = {
        reading.source
        for device in snapshot.devices
        if device.vendor == vendor
        for reading in device.readings
        if reading.metric in CORE_KEYS and not isinstance(reading.value, Absent)
    }
    return bool(origins) and source not in origins


def reconsider(need: Need, mode: Mode, *, covered: bool, now: float) -> Need:
    """The need after one more look: there at once where readings are lacking, and gone after five minutes at the least."""
    if mode != "auto" or need.needed != covered:
        return need
    if covered and now - need.since < CHANGE_MODE_AFTER_SECONDS:
        return need
    return Need(not covered, now)
