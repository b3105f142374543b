"""Events of devices: how often each occurred, and which are open until the device is repaired."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import NamedTuple

from telemetry_daemon.readers.pci import NOT_BOUND, Machine
from telemetry_parsers import bounds
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.metrics import BY_KEY, in_range
from telemetry_parsers.model import Absent, Event, MergedDevice, MergedReading
from telemetry_parsers.past import PastEvent

SOURCE = "telemetry"
# The code under which further events are counted once a device has the maximum number of codes.
OTHER_CODE = "other"
# A card counts these from the start of its driver, or from its last reset.
_SINCE_RESET = frozenset({"energy_joules_total", "ecc_uncorrected_total"})
_LAST_TIME = BY_KEY["event_last_timestamp_seconds"]
_Poll = tuple[str, str]
# By metric, label and source.
_Counts = Mapping[tuple[str, str, str], float]


@dataclass(frozen=True, slots=True)
class Count:
    """The least that a card has counted, rounded down to a power of two so that the state file is not written at every poll."""

    metric: str
    label: str
    source: str
    least: float


@dataclass(frozen=True, slots=True)
class OpenEvents:
    """The codes of a device's open events with their Unix times (0 if unknown), and the boot, binding (None if unknown) and counts that a repair changes."""

    id: str
    codes: tuple[str, ...]
    boot: str
    binding: int | None
    counts: tuple[Count, ...] = ()
    times: tuple[float, ...] = ()

    @property
    def last(self) -> dict[str, float]:
        """Return when each code last occurred."""
        return dict(zip(self.codes, chain(self.times, repeat(0.0)), strict=False))

    def with_event(self, code: str, wall_time: float) -> OpenEvents:
        """Return these events with another event."""
        last = self.last | {code: wall_time}
        return replace(self, codes=tuple(last), times=tuple(last.values()))

    def survives(self, boot: str) -> bool:
        """Return whether the machine has not rebooted since."""
        return "" in (boot, self.boot) or boot == self.boot

    def is_repaired(self, binding: int | None, counts: _Counts) -> bool:
        """Return whether the card has a new driver binding, or its counters restarted."""
        if self.binding is not None and binding not in (None, NOT_BOUND, self.binding):
            return True
        now = ((counts.get((count.metric, count.label, count.source)), count.least) for count in self.counts)
        return any(value is not None and value < least / 2 for value, least in now)

    def after(self, counts: _Counts) -> OpenEvents:
        """Return these events with the current counts of the card."""
        least = {(count.metric, count.label, count.source): count.least for count in self.counts}
        more = {key: floor for key, value in counts.items() if (floor := _rounded(value)) > least.get(key, 0.0)}
        counts_now = sorted({**least, **more}.items())
        return replace(self, counts=tuple(Count(*key, value) for key, value in counts_now)) if more else self


@dataclass(slots=True)
class _Counted:
    """How often an event occurred since the daemon started, and when it last did."""

    count: int = 0
    last_wall_time: float = 0.0


class CountedEvent(NamedTuple):
    """An event to count. An event that is already ongoing in the first report of its poll was not seen to begin."""

    event: PastEvent
    is_seen_to_begin: bool


class Events:
    """The events of all devices. Not thread-safe. `opened` were open when the previous daemon exited; a reboot ends them."""

    def __init__(self, machine: Machine | None = None, opened: Iterable[OpenEvents] = ()) -> None:
        self._machine = machine or Machine()
        self._open = {event.id: event for event in opened if event.survives(self._machine.boot)}
        self._counted = {
            event.id: {code: _Counted(last_wall_time=when) for code, when in event.last.items()}
            for event in self._open.values()
        }
        self._lasting: dict[_Poll, frozenset[tuple[str, str]]] = {}
        # Polls of removed sources, whose events do not count again when the sources return.
        self._removed: set[_Poll] = set()
        # The devices as last reported.
        self._seen: dict[str, MergedDevice] = {}

    def look(self, devices: Sequence[MergedDevice]) -> None:
        """Compare the counters of the devices with those at their events, and close the events of repaired devices."""
        seen = self._seen
        seen.update({device.id: device for device in devices if device.readings or device.id not in seen})
        for opened in self.opened():
            counts = self._counts(opened.id)
            if opened.is_repaired(self._binding(opened.id), counts):
                del self._open[opened.id]
            else:
                self._open[opened.id] = opened.after(counts)

    def take(
        self, poll: _Poll, ids: Sequence[str | None], events: Sequence[Event], wall_time: float
    ) -> list[CountedEvent]:
        """Count the events of a report whose devices have these ids, and return them. An ongoing event counts when it begins."""
        self._removed.discard(poll)
        is_first = poll not in self._lasting
        before = self._lasting.setdefault(poll, frozenset())
        counted: list[CountedEvent] = []
        if not events and not before:
            return counted
        lasting = {item for item in before if item[0] not in ids}  # not in this report
        for event in events:
            device_id = ids[event.device] if event.device is not None and event.device < len(ids) else None
            if device_id is None:
                continue
            if event.is_ongoing:
                lasting.add((device_id, event.code))
            if event.is_ongoing and (device_id, event.code) in before:
                continue
            when = event.wall_time or wall_time
            code = self._count(device_id, event.code, when)
            past = PastEvent(when, device_id, event.code, event.text)
            counted.append(CountedEvent(past, not (is_first and event.is_ongoing)))
            if not event.is_ongoing:
                self._open_up(device_id, code, when)
        self._lasting[poll] = frozenset(lasting)
        return counted

    def remove_source(self, source: str) -> None:
        """Close this source's ongoing events; they reopen if the source reports them again."""
        self._removed |= {poll for poll in self._lasting if poll[0] == source}

    def close(self, device_id: str) -> tuple[str, ...]:
        """Close a device's open events and return their codes, except for events that its tool still reports."""
        opened = self._open.pop(device_id, None)
        return opened.codes if opened is not None else ()

    def forget(self, device_id: str) -> None:
        """Drop everything about a device that is gone for good."""
        self._open.pop(device_id, None)
        self._counted.pop(device_id, None)
        self._seen.pop(device_id, None)
        self._lasting = {
            poll: frozenset(item for item in lasting if item[0] != device_id) for poll, lasting in self._lasting.items()
        }

    def opened(self) -> tuple[OpenEvents, ...]:
        """Return the events to remember over a restart."""
        return tuple(self._open.values())

    def codes(self) -> Mapping[str, frozenset[str]]:
        """Return the codes of each device's open and ongoing events."""
        codes: dict[str, set[str]] = {event.id: set(event.codes) for event in self._open.values()}
        ongoing = (lasting for poll, lasting in self._lasting.items() if poll not in self._removed)
        for device_id, code in chain.from_iterable(ongoing):
            kept = code if code in self._counted.get(device_id, ()) else OTHER_CODE
            codes.setdefault(device_id, set()).add(kept)
        return {device_id: frozenset(found) for device_id, found in codes.items()}

    def readings(self, device_id: str, codes: frozenset[str]) -> Iterator[MergedReading]:
        """Yield the readings of a device's events. `codes` are open."""
        for code, counted in sorted(self._counted.get(device_id, {}).items()):
            yield MergedReading("events_total", code, float(counted.count), SOURCE)
            if counted.last_wall_time:
                last = in_range(_LAST_TIME, counted.last_wall_time)
                yield MergedReading("event_last_timestamp_seconds", code, last, SOURCE)
        for code in sorted(codes):
            yield MergedReading("event_open", code, 1.0, SOURCE)

    def _count(self, device_id: str, code: str, wall_time: float) -> str:
        counted = self._counted.setdefault(device_id, {})
        if code not in counted and len(counted) >= bounds.MOST_EVENT_CODES:
            code = OTHER_CODE
        event = counted.setdefault(code, _Counted())
        event.count += 1
        event.last_wall_time = wall_time
        return code

    def _open_up(self, device_id: str, code: str, wall_time: float) -> None:
        opened = self._open.get(device_id)
        if opened is None:
            opened = OpenEvents(device_id, (), self._machine.boot, self._binding(device_id))
        when = in_range(_LAST_TIME, wall_time)
        self._open[device_id] = opened.with_event(code, 0.0 if isinstance(when, Absent) else when).after(
            self._counts(device_id)
        )

    def _binding(self, device_id: str) -> int | None:
        device = self._seen.get(device_id)
        return self._machine.binding(device.bus_id) if device is not None and device.bus_id else None

    def _counts(self, device_id: str) -> _Counts:
        """Return the counters of a device's card: partitions have no counters of their own."""
        device = self._seen.get(device_id)
        card = self._seen.get(device.parent or device_id) if device is not None else None
        return {
            (reading.metric, reading.label, reading.source): reading.value
            for reading in (card.readings if card is not None else ())
            if reading.metric in _SINCE_RESET and not isinstance(reading.value, Absent)
        }


def _rounded(value: float) -> float:
    return 2.0 ** math.floor(math.log2(value)) if value > 0.0 else 0.0
