"""Device events: how often each occurred, and which stay open until a repair."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import NamedTuple

from telemetry_daemon.readers.pci import NOT_BOUND, MachineState
from telemetry_parsers import bounds
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.metrics import BY_KEY, in_range
from telemetry_parsers.model import Absent, Event, MergedDevice, MergedReading
from telemetry_parsers.past import PastEvent

SOURCE = "telemetry"
# If a device has too many different codes, events with new codes are counted under this code.
OTHER_CODE = "other"
# These counters start at 0 when the driver is loaded or the card is reset.
_COUNTERS_SINCE_RESET = frozenset({"energy_joules_total", "ecc_uncorrected_total"})
_LAST_TIME_METRIC = BY_KEY["event_last_timestamp_seconds"]
_Poll = tuple[str, str]
# Maps (metric, label, source) to a counter's value.
_Counters = Mapping[tuple[str, str, str], float]


@dataclass(frozen=True, slots=True)
class CounterFloor:
    """A card's counter, rounded down so that the state file rarely changes."""

    metric: str
    label: str
    source: str
    least: float


@dataclass(frozen=True, slots=True)
class OpenEvents:
    """A device's events that stay open until a reboot or a repair."""

    id: str
    codes: tuple[str, ...]
    boot: str
    binding: int | None
    counts: tuple[CounterFloor, ...] = ()
    times: tuple[float, ...] = ()

    @property
    def last_times(self) -> dict[str, float]:
        """Map each code to the Unix time of its last event, or to 0 if unknown."""
        return dict(zip(self.codes, chain(self.times, repeat(0.0)), strict=False))

    def with_event(self, code: str, wall_time: float) -> OpenEvents:
        """Return these events after adding this one or updating its time."""
        times = self.last_times | {code: wall_time}
        return replace(self, codes=tuple(times), times=tuple(times.values()))

    def survives(self, boot: str) -> bool:
        """Return whether the events stay open, because the boot ID is unchanged or unknown."""
        return "" in (boot, self.boot) or boot == self.boot

    def is_repaired(self, binding: int | None, counters: _Counters) -> bool:
        """Return whether the driver was bound again, or the card's counters restarted."""
        if self.binding is not None and binding not in (None, NOT_BOUND, self.binding):
            return True
        values = ((counters.get((count.metric, count.label, count.source)), count.least) for count in self.counts)
        return any(value is not None and value < least / 2 for value, least in values)

    def with_raised_floors(self, counters: _Counters) -> OpenEvents:
        """Return these events with higher floors for counters that have grown."""
        floor_by_counter = {(count.metric, count.label, count.source): count.least for count in self.counts}
        current_floors = {key: _power_of_two_below(value) for key, value in counters.items()}
        raised = {key: floor for key, floor in current_floors.items() if floor > floor_by_counter.get(key, 0.0)}
        floors = sorted({**floor_by_counter, **raised}.items())
        return replace(self, counts=tuple(CounterFloor(*key, floor) for key, floor in floors)) if raised else self


@dataclass(slots=True)
class _EventCount:
    count: int = 0
    last_wall_time: float = 0.0


class CountedEvent(NamedTuple):
    """A counted event, and whether the daemon observed its start."""

    event: PastEvent
    is_start_observed: bool


class Events:
    """The events of all devices. Not thread-safe."""

    def __init__(self, machine: MachineState | None = None, open_events: Iterable[OpenEvents] = ()) -> None:
        self._machine = machine or MachineState()
        self._open_by_device = {opened.id: opened for opened in open_events if opened.survives(self._machine.boot)}
        self._event_counts = {
            opened.id: {code: _EventCount(last_wall_time=last_time) for code, last_time in opened.last_times.items()}
            for opened in self._open_by_device.values()
        }
        # The ongoing events that each poll reports, as (device id, code).
        self._ongoing_by_poll: dict[_Poll, frozenset[tuple[str, str]]] = {}
        # The polls of removed sources. If a source returns, its ongoing events are not counted again.
        self._removed_polls: set[_Poll] = set()
        self._newest_devices: dict[str, MergedDevice] = {}

    def update(self, devices: Sequence[MergedDevice]) -> None:
        """Update the devices, and close the events of devices that were repaired."""
        newest = self._newest_devices
        newest.update({device.id: device for device in devices if device.readings or device.id not in newest})
        for opened in self.open_events():
            counters = self._card_counters(opened.id)
            if opened.is_repaired(self._driver_binding(opened.id), counters):
                del self._open_by_device[opened.id]
            else:
                self._open_by_device[opened.id] = opened.with_raised_floors(counters)

    def add_report(
        self, poll: _Poll, ids: Sequence[str | None], events: Sequence[Event], wall_time: float
    ) -> list[CountedEvent]:
        """Count the new events of a report and return them. `ids` are the ids of the report's devices."""
        self._removed_polls.discard(poll)
        is_first_report = poll not in self._ongoing_by_poll
        previously_ongoing = self._ongoing_by_poll.setdefault(poll, frozenset())
        counted_events: list[CountedEvent] = []
        if not events and not previously_ongoing:
            return counted_events
        ongoing = {pair for pair in previously_ongoing if pair[0] not in ids}  # the report does not cover these devices
        for event in events:
            device_id = ids[event.device] if event.device is not None and event.device < len(ids) else None
            if device_id is None:
                continue
            if event.is_ongoing:
                ongoing.add((device_id, event.code))
            if event.is_ongoing and (device_id, event.code) in previously_ongoing:
                continue
            event_time = event.wall_time or wall_time
            code = self._count_event(device_id, event.code, event_time)
            past_event = PastEvent(event_time, device_id, event.code, event.text)
            counted_events.append(CountedEvent(past_event, not (is_first_report and event.is_ongoing)))
            if not event.is_ongoing:
                self._add_open_event(device_id, code, event_time)
        self._ongoing_by_poll[poll] = frozenset(ongoing)
        return counted_events

    def remove_source(self, source: str) -> None:
        """Close the ongoing events of a source."""
        self._removed_polls |= {poll for poll in self._ongoing_by_poll if poll[0] == source}

    def close(self, device_id: str) -> tuple[str, ...]:
        """Close a device's open events and return their codes."""
        closed = self._open_by_device.pop(device_id, None)
        return closed.codes if closed is not None else ()

    def forget(self, device_id: str) -> None:
        """Drop all events of the device."""
        self._open_by_device.pop(device_id, None)
        self._event_counts.pop(device_id, None)
        self._newest_devices.pop(device_id, None)
        self._ongoing_by_poll = {
            poll: frozenset(pair for pair in pairs if pair[0] != device_id)
            for poll, pairs in self._ongoing_by_poll.items()
        }

    def open_events(self) -> tuple[OpenEvents, ...]:
        """Return the open events, which are stored across restarts."""
        return tuple(self._open_by_device.values())

    def open_codes(self) -> Mapping[str, frozenset[str]]:
        """Map each device id to the codes of its open and ongoing events."""
        codes = {opened.id: set(opened.codes) for opened in self._open_by_device.values()}
        ongoing = (pairs for poll, pairs in self._ongoing_by_poll.items() if poll not in self._removed_polls)
        for device_id, code in chain.from_iterable(ongoing):
            counted_code = code if code in self._event_counts.get(device_id, ()) else OTHER_CODE
            codes.setdefault(device_id, set()).add(counted_code)
        return {device_id: frozenset(device_codes) for device_id, device_codes in codes.items()}

    def readings(self, device_id: str, codes: frozenset[str]) -> Iterator[MergedReading]:
        """Yield the device's event readings. `codes` are the codes of its open events."""
        for code, event_count in sorted(self._event_counts.get(device_id, {}).items()):
            yield MergedReading("events_total", code, float(event_count.count), SOURCE)
            if event_count.last_wall_time:
                last = in_range(_LAST_TIME_METRIC, event_count.last_wall_time)
                yield MergedReading("event_last_timestamp_seconds", code, last, SOURCE)
        for code in sorted(codes):
            yield MergedReading("event_open", code, 1.0, SOURCE)

    def _count_event(self, device_id: str, code: str, wall_time: float) -> str:
        counts_by_code = self._event_counts.setdefault(device_id, {})
        if code not in counts_by_code and len(counts_by_code) >= bounds.MAX_EVENT_CODES:
            code = OTHER_CODE
        event_count = counts_by_code.setdefault(code, _EventCount())
        event_count.count += 1
        event_count.last_wall_time = wall_time
        return code

    def _add_open_event(self, device_id: str, code: str, wall_time: float) -> None:
        opened = self._open_by_device.get(device_id)
        if opened is None:
            opened = OpenEvents(device_id, (), self._machine.boot, self._driver_binding(device_id))
        checked_time = in_range(_LAST_TIME_METRIC, wall_time)
        opened = opened.with_event(code, 0.0 if isinstance(checked_time, Absent) else checked_time)
        self._open_by_device[device_id] = opened.with_raised_floors(self._card_counters(device_id))

    def _driver_binding(self, device_id: str) -> int | None:
        device = self._newest_devices.get(device_id)
        return self._machine.binding_of(device.bus_id) if device is not None and device.bus_id else None

    def _card_counters(self, device_id: str) -> _Counters:
        """Return the device's counters. A partition has its card's counters."""
        device = self._newest_devices.get(device_id)
        card = self._newest_devices.get(device.parent or device_id) if device is not None else None
        return {
            (reading.metric, reading.label, reading.source): reading.value
            for reading in (card.readings if card is not None else ())
            if reading.metric in _COUNTERS_SINCE_RESET and not isinstance(reading.value, Absent)
        }


def _power_of_two_below(value: float) -> float:
    return 2.0 ** math.floor(math.log2(value)) if value > 0.0 else 0.0
