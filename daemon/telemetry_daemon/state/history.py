"""The history of the last half hour, in slots of 5 s."""

from __future__ import annotations

import math
import re
import threading
from array import array
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from telemetry_daemon.times import MIN_SLEEP_SECONDS, Clock
from telemetry_parsers import bounds
from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.model import Absent, Health, MergedDevice, Snapshot, Value
from telemetry_parsers.past import (
    KEPT,
    MAX_EVENTS,
    SLOT_SECONDS,
    SLOTS,
    Gap,
    Past,
    PastEvent,
    Series,
    kept_positions,
    kept_values,
)
from telemetry_parsers.readings import Origin, Readings
from telemetry_parsers.states import is_up

# A slow client has another minute to read the oldest slots.
STORED_SLOTS = SLOTS + 12
# The reason for empty slots before a metric's first value.
NOT_SEEN = "not seen yet"
_HAS_VALUE = 0
_MAX_REASONS = 255
_REPEATED_CODE_PATTERN = re.compile(rb"([^\x00])\1*", re.DOTALL)

# The poll that reported a value: (source, poll name).
PollKey = tuple[str, str]
# An attempt: (source, monotonic time).
_Attempt = tuple[str, float]
_Slots = TypeVar("_Slots", "array[float]", bytearray)
# On larger nodes, only the first devices with a value have a history.
MAX_DEVICES = bounds.MAX_DEVICES
# `end_slots` is called once per slot, so a longer pause means that the daemon was held up.
MAX_SILENCE_SECONDS = 1.5 * SLOT_SECONDS
# While the clock is slewed, a timestamp may precede the start of its slot by this much.
_MAX_SLEW_SECONDS = 0.5
HELD_UP, NOT_REPORTED, NO_LONGER_KEPT = "daemon was held up", "no source gives it", "no longer kept"
ASLEEP, LOST, SLEPT = "asleep", "lost", "machine slept"


class ReasonCodes:
    """Encodes the reasons for missing values as one byte each."""

    def __init__(self) -> None:
        self._texts = ["", "unknown"]
        self._codes = {"": _HAS_VALUE, "unknown": 1}

    def code(self, reason: str) -> int:
        """Return the byte that encodes a reason."""
        if reason not in self._codes and len(self._texts) <= _MAX_REASONS:
            self._codes[reason] = len(self._texts)
            self._texts.append(reason)
        return self._codes.get(reason, 1)

    def gaps(self, codes: bytes) -> tuple[Gap, ...]:
        """Return a gap for each sequence of slots with the same reason code."""
        runs = _REPEATED_CODE_PATTERN.finditer(codes) if codes.count(_HAS_VALUE) < len(codes) else ()
        return tuple(Gap(run.start(), run.end() - run.start(), self._texts[codes[run.start()]]) for run in runs)


@dataclass(frozen=True, slots=True)
class SlotRange:
    """A range of slots, excluding `end`."""

    first: int
    end: int


@dataclass(slots=True)
class MetricHistory:
    """A device's history of one metric."""

    first_slot: int
    last_values: array[float] = field(default_factory=lambda: array("f", [math.nan]) * STORED_SLOTS)
    # None while the last value of each slot is also its highest, for example for a constant limit.
    highest_values: array[float] | None = None
    reason_codes: bytearray | None = None
    open_slot_last: float = math.nan
    open_slot_highest: float = math.nan
    value: Value | None = None
    poll_key: PollKey = ("", "")

    def set_value(self, value: float, poll_key: PollKey) -> None:
        """Set the current value and the poll that reported it."""
        self.value, self.poll_key, self.open_slot_last = value, poll_key, value
        if not value <= self.open_slot_highest:  # the highest value is NaN before the slot's first value
            self.open_slot_highest = value

    def end_slot(self, slot: int) -> bool:
        """Store the open slot, and return whether it has a value."""
        index, has_value = slot % STORED_SLOTS, not math.isnan(self.open_slot_last)
        if self.highest_values is None and self.open_slot_highest > self.open_slot_last:
            self.highest_values = self.last_values[:]
        self.last_values[index] = self.open_slot_last
        if self.highest_values is not None:
            self.highest_values[index] = self.open_slot_highest
        if self.reason_codes is not None:
            self.reason_codes[index] = _HAS_VALUE
        return has_value

    def set_reason(self, slot: int, reason_code: int) -> None:
        """Store the reason why the slot has no value."""
        self.reason_codes = self.reason_codes or bytearray(STORED_SLOTS)
        self.reason_codes[slot % STORED_SLOTS] = reason_code

    def begin_slot(self, *, is_valid: bool) -> None:
        """Open the next slot, with the current value if it is still valid."""
        self.open_slot_last = self.open_slot_highest = math.nan
        if is_valid and self.value is not None and not isinstance(self.value, Absent):
            self.open_slot_last = self.open_slot_highest = self.value

    def series(self, span: SlotRange, gap_codes: Mapping[int, int], reasons: ReasonCodes) -> Series:
        """Return the values of these slots. `gap_codes` maps slots without values to reason codes."""
        last = _slots_in(self.last_values, span)
        highest = last if self.highest_values is None else _slots_in(self.highest_values, span)
        codes = bytearray(span.end - span.first) if self.reason_codes is None else _slots_in(self.reason_codes, span)
        not_seen_count = max(0, min(self.first_slot, span.end) - span.first)
        codes[:not_seen_count] = bytes([reasons.code(NOT_SEEN)]) * not_seen_count
        for slot, reason_code in gap_codes.items():
            if span.first <= slot < span.end:
                index = slot - span.first
                codes[index], last[index], highest[index] = reason_code, math.nan, math.nan
        return Series(last, highest, reasons.gaps(bytes(codes)))


def _slots_in(slots: _Slots, span: SlotRange) -> _Slots:
    begin, count = span.first % STORED_SLOTS, span.end - span.first
    return slots[begin : begin + count] + slots[: max(0, begin + count - STORED_SLOTS)]


class DeviceHistory:
    """The history of one device. `device` is None while no source lists the device."""

    __slots__ = ("device", "metric_histories", "newest_slot")

    def __init__(self, slot: int) -> None:
        self.newest_slot = slot
        self.metric_histories: list[MetricHistory | None] = [None] * len(KEPT)
        self.device: MergedDevice | None = None

    def update(self, device: MergedDevice, get_poll_key: Callable[[Origin], PollKey], slot: int) -> None:
        """Set the current values of the device."""
        self.device, readings = device, Readings.of(device.readings)
        origins = readings.shape.origins
        for metric_index, (value, positions) in enumerate(
            zip(kept_values(device), kept_positions(readings.shape), strict=True)
        ):
            metric_history = self.metric_histories[metric_index]
            if value is None or isinstance(value, Absent):
                if metric_history is not None:
                    metric_history.value = value
                continue
            if metric_history is None:
                metric_history = self.metric_histories[metric_index] = MetricHistory(slot)
            metric_history.set_value(value, get_poll_key(readings.origins[origins[positions[0]]]))

    def end_slot(self, slot: int, get_reason_code: Callable[[DeviceHistory, MetricHistory], int]) -> None:
        """Store the open slot, with a reason for each missing value."""
        for metric_history in self.metric_histories:
            if metric_history is not None and metric_history.end_slot(slot):
                self.newest_slot = slot
            elif metric_history is not None:
                metric_history.set_reason(slot, get_reason_code(self, metric_history))

    def begin_slot(self, *, is_valid: bool) -> None:
        """Open the next slot of each metric."""
        for metric_history in self.metric_histories:
            if metric_history is not None:
                metric_history.begin_slot(is_valid=is_valid)

    def mark_unlisted(self) -> None:
        """Record that no source lists the device."""
        self.device = None
        for metric_history in self.metric_histories:
            if metric_history is not None:
                metric_history.value = None


class History:
    """The history of all devices, in slots numbered from boot. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._reasons = ReasonCodes()
        self._devices: dict[str, DeviceHistory] = {}
        # The times of events are seconds since boot.
        self._events: deque[PastEvent] = deque(maxlen=MAX_EVENTS)
        # Maps slots that were not recorded to their reason codes.
        self._gap_codes: dict[int, int] = {}
        self._outages: Mapping[PollKey, str] = {}
        self._last_call, self._slept_seconds = self._seconds_since_boot(), clock.suspended_seconds()
        self._valid_until = self._last_call
        self._first_slot = self._open_slot = int(self._last_call // SLOT_SECONDS)

    def open_slot(self) -> int:
        """Return the number of the open slot."""
        return self._open_slot

    def slot_number_at(self, wall_time: float) -> int:
        """Return the number of the slot that contains this Unix time."""
        return int((wall_time - self._clock.boot_time() + _MAX_SLEW_SECONDS) // SLOT_SECONDS)

    def update(
        self, devices: Sequence[MergedDevice], health_by_poll: Mapping[PollKey, Health], valid_until: float
    ) -> None:
        """Set the current devices. Their values are valid until this monotonic time."""
        with self._lock:
            keeps_values = self._begin_current_slot(self._seconds_since_boot())
            keys_by_attempt = {
                (health.source, health.attempted_monotonic): key for key, health in health_by_poll.items()
            }
            for device in devices:
                history = self._devices.get(device.id)
                if history is None or history.device is not device or not keeps_values:
                    self._update_device(device, history or DeviceHistory(self._open_slot), keys_by_attempt)
            for device_id in self._devices.keys() - {device.id for device in devices}:
                self._devices[device_id].mark_unlisted()
            self._outages = outages_by_poll(health_by_poll, self._clock.monotonic())
            self._valid_until = valid_until + self._clock.suspended_seconds()

    def add_event(self, event: PastEvent) -> None:
        """Add an event, and drop the oldest one beyond the limit."""
        boot_time = self._clock.boot_time()
        with self._lock:
            self._events.append(replace(event, wall_time=event.wall_time - boot_time))

    def end_slots(self, get_snapshot: Callable[[], Snapshot]) -> None:
        """Store the slots that have ended. Call this once per slot."""
        get_snapshot()  # calls `update` if reports have expired
        with self._lock:
            now = self._seconds_since_boot()
            # The next call handles reports that have expired since the snapshot.
            if now < self._valid_until and not self._begin_current_slot(now):
                self._begin_slot(self._open_slot, is_valid=True)

    def forget(self, device_id: str) -> None:
        """Drop the history of the device."""
        with self._lock:
            self._devices.pop(device_id, None)
            events = [event for event in self._events if event.id != device_id]
            self._events = deque(events, maxlen=MAX_EVENTS)

    def clear(self) -> None:
        """Drop the history of all devices, and start again with the current slot."""
        with self._lock:
            self._devices.clear()
            self._events.clear()
            self._gap_codes.clear()
            self._outages = {}
            self._last_call = self._valid_until = self._seconds_since_boot()
            self._first_slot = self._open_slot = int(self._last_call // SLOT_SECONDS)

    def ids(self) -> tuple[str, ...]:
        """Return the ids of the devices that have a history."""
        with self._lock:
            return tuple(self._devices)

    def past(
        self,
        ids: Collection[str] | None = None,
        metrics: Collection[str] = KEPT,
        first: int | None = None,
        end: int | None = None,
    ) -> Past:
        """Return the history from slot `first` (default: the oldest) to slot `end` (excluded)."""
        boot_time = self._clock.boot_time()
        with self._lock:
            span = self._span(first, self._open_slot if end is None else end)
            events = [event for event in self._events if first is None or event.wall_time >= SLOT_SECONDS * first]
            return Past(
                start=SLOT_SECONDS * span.first + boot_time,
                slots=span.end - span.first,
                first=span.first,
                devices={
                    device_id: self._series(span, device_id, metrics)
                    for device_id in (self._devices if ids is None else ids)
                },
                events=tuple(replace(event, wall_time=event.wall_time + boot_time) for event in events),
            )

    def _span(self, first: int | None, end: int) -> SlotRange:
        oldest = max(self._first_slot, min(self._open_slot, end) - SLOTS)
        return SlotRange(min(oldest if first is None else max(first, oldest), end), end)

    def _series(self, span: SlotRange, device_id: str, metrics: Collection[str]) -> Mapping[str, Series]:
        device = self._devices.get(device_id)
        overwritten = range(span.first, min(self._open_slot - STORED_SLOTS, span.end))
        gap_codes = self._gap_codes | dict.fromkeys(overwritten, self._reasons.code(NO_LONGER_KEPT))
        return {
            metric: metric_history.series(span, gap_codes, self._reasons)
            for metric, metric_history in zip(KEPT, device.metric_histories if device is not None else (), strict=False)
            if metric_history is not None and metric in metrics
        }

    def _seconds_since_boot(self) -> float:
        return self._clock.monotonic() + self._clock.suspended_seconds()

    def _update_device(
        self, device: MergedDevice, history: DeviceHistory, keys_by_attempt: Mapping[_Attempt, PollKey]
    ) -> None:
        if device.id not in self._devices and len(self._devices) >= MAX_DEVICES:
            return
        history.update(
            device,
            lambda origin: keys_by_attempt.get((origin.source, origin.taken), (origin.source, "")),
            self._open_slot,
        )
        if any(history.metric_histories):
            self._devices[device.id] = history

    def _begin_current_slot(self, now: float) -> bool:
        """Store the slots that have ended, and begin the current one. Return whether the previous values are kept."""
        gap_reason = self._reason_if_interrupted(now)
        previous_slot, current_slot = self._open_slot, int(now // SLOT_SECONDS)
        if current_slot <= previous_slot:
            return True
        self._end_slot(previous_slot)
        for slot in range(max(previous_slot + 1, current_slot - STORED_SLOTS), current_slot):
            if gap_reason:
                self._gap_codes[slot] = self._reasons.code(gap_reason)
            else:
                self._begin_slot(slot, is_valid=SLOT_SECONDS * slot < self._valid_until)
                self._end_slot(slot)
        keeps_values = not gap_reason and SLOT_SECONDS * current_slot < self._valid_until
        self._begin_slot(current_slot, is_valid=keeps_values)
        self._open_slot = current_slot
        return keeps_values

    def _reason_if_interrupted(self, now: float) -> str:
        """Return why the values of the slots since the last call are unknown, or "" if they are known."""
        suspended_seconds, seconds_since_call = self._clock.suspended_seconds(), now - self._last_call
        self._last_call = now
        if suspended_seconds - self._slept_seconds >= MIN_SLEEP_SECONDS:
            self._slept_seconds = suspended_seconds
            return SLEPT
        return HELD_UP if seconds_since_call > MAX_SILENCE_SECONDS else ""

    def _end_slot(self, slot: int) -> None:
        for device in self._devices.values():
            device.end_slot(slot, self._reason_code)

    def _begin_slot(self, slot: int, *, is_valid: bool) -> None:
        for device in self._devices.values():
            device.begin_slot(is_valid=is_valid)
        self._gap_codes = {past: reason for past, reason in self._gap_codes.items() if past >= slot - STORED_SLOTS}
        for device_id, history in list(self._devices.items()):
            if history.device is None and history.newest_slot < slot - SLOTS:
                del self._devices[device_id]

    def _reason_code(self, history: DeviceHistory, metric_history: MetricHistory) -> int:
        return self._reasons.code(absence_reason(history.device, metric_history, self._outages))


def absence_reason(device: MergedDevice | None, metric_history: MetricHistory, outages: Mapping[PollKey, str]) -> str:
    """Return the reason why a metric has no value."""
    if device is not None and device.up is False:
        return LOST
    if device is not None and Readings.of(device.readings).value("suspended") == 1.0:
        return ASLEEP
    source = metric_history.poll_key[0]
    if outage := outages.get(metric_history.poll_key, "removed") or outages.get((source, ""), ""):
        return f"{source}: {outage}"
    if metric_history.value is None:
        return NOT_REPORTED
    return metric_history.value.value if isinstance(metric_history.value, Absent) else f"{source}: expired"


def outages_by_poll(health_by_poll: Mapping[PollKey, Health], now: float) -> Mapping[PollKey, str]:
    """Map each poll to its failure, or "" if it works. The key (source, "") is for the source's device lists."""
    outages = {key: _outage(health, now) for key, health in health_by_poll.items()}
    working_lists = {(source, ""): "" for source, _ in outages}
    list_outages = {
        (key[0], ""): outage for key, outage in outages.items() if outage and health_by_poll[key].lists_devices
    }
    return {**outages, **working_lists, **list_outages}


def _outage(health: Health, now: float) -> str:
    if health.state in ("ok", "no_devices"):
        return "" if is_up(health, now) else "expired"
    return (health.reason or health.state).replace("_", " ")
