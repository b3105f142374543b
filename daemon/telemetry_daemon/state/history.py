"""The node's last half hour in slots of 5 s: the last and highest value of each metric, for pages, documents and `telemetry top`."""

from __future__ import annotations

import math
import re
import threading
from array import array
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from telemetry_daemon.times import Clock
from telemetry_parsers import bounds
from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.model import Absent, Health, MergedDevice, Snapshot, Value
from telemetry_parsers.past import (
    KEPT,
    MOST_EVENTS,
    SLOT_SECONDS,
    SLOTS,
    Gap,
    Past,
    PastEvent,
    Series,
    kept_places,
    kept_values,
)
from telemetry_parsers.readings import Origin, Readings
from telemetry_parsers.states import is_up

# A minute more than is shown, for slow readers.
LENGTH = SLOTS + 12
# The reason for slots before a line's first value.
NOT_SEEN = "not seen yet"
_NUMBER = 0
_MOST_REASONS = 255
_RUN = re.compile(rb"([^\x00])\1*", re.DOTALL)

# The (source, poll) that reported a value.
Giver = tuple[str, str]
_Slots = TypeVar("_Slots", "array[float]", bytearray)
# The number of devices that a source may list. On a larger node, only the first devices with a value have a history.
MOST_DEVICES = bounds.MOST_DEVICES
# The store is read at least once in each slot. After a longer pause the daemon was held up.
LONGEST_SILENCE_SECONDS = 1.5 * SLOT_SECONDS
SHORTEST_SLEEP_SECONDS = 1.0
# The wall clock is slewed: a slot that ended at most this long after a timestamp is treated as ended at it.
_SLEW_SECONDS = 0.5
NOT_CLOSED, NOT_GIVEN, NO_LONGER_KEPT = "daemon was held up", "no source gives it", "no longer kept"
ASLEEP, LOST, SLEPT = "asleep", "lost", "machine slept"


class Reasons:
    """The reasons for missing values, encoded as one byte each."""

    def __init__(self) -> None:
        self._texts = ["", "unknown"]
        self._codes = {"": _NUMBER, "unknown": 1}

    def code(self, text: str) -> int:
        """Return the byte of a reason, or that of `unknown` if there are more reasons than bytes."""
        if text not in self._codes and len(self._texts) <= _MOST_REASONS:
            self._codes[text] = len(self._texts)
            self._texts.append(text)
        return self._codes.get(text, 1)

    def gaps(self, codes: bytes) -> tuple[Gap, ...]:
        """Return the gaps between values: one for each run of slots with the same reason."""
        found = _RUN.finditer(codes) if codes.count(_NUMBER) < len(codes) else ()
        return tuple(Gap(run.start(), run.end() - run.start(), self._texts[codes[run.start()]]) for run in found)


@dataclass(frozen=True, slots=True)
class Span:
    """The slots from `first` up to, but not including, `end`."""

    first: int
    end: int


@dataclass(slots=True)
class Line:
    """One metric: its slots from number `since` on, the values in the open slot, the current value and its giver."""

    since: int
    last: array[float] = field(default_factory=lambda: array("f", [math.nan]) * LENGTH)
    # None while the last value of each slot was its highest, as for a constant limit.
    highest: array[float] | None = None
    reasons: bytearray | None = None
    newest: float = math.nan
    top: float = math.nan
    value: Value | None = None
    giver: Giver = ("", "")

    def take(self, value: float, giver: Giver) -> None:
        """Accept a value that is current from now on."""
        self.value, self.giver, self.newest = value, giver, value
        if not value <= self.top:
            self.top = value

    def end(self, slot: int) -> bool:
        """End the open slot, and return whether it has a value."""
        index, has_number = slot % LENGTH, self.newest == self.newest
        if self.highest is None and self.top > self.newest:
            self.highest = self.last[:]
        self.last[index] = self.newest
        if self.highest is not None:
            self.highest[index] = self.top
        if self.reasons is not None:
            self.reasons[index] = _NUMBER
        return has_number

    def lack(self, slot: int, reason: int) -> None:
        """Store the reason why a slot that has ended has no value."""
        self.reasons = self.reasons or bytearray(LENGTH)
        self.reasons[slot % LENGTH] = reason

    def begin(self, *, in_force: bool) -> None:
        """Begin a slot, with the current value if there is one."""
        self.newest = self.top = math.nan
        if in_force and self.value is not None and not isinstance(self.value, Absent):
            self.newest = self.top = self.value

    def series(self, span: Span, unclosed: Mapping[int, int], reasons: Reasons) -> Series:
        """Return these slots of the line. `unclosed` are slots without data, each with its reason."""
        last = _cut(self.last, span)
        top = last if self.highest is None else _cut(self.highest, span)
        codes = bytearray(span.end - span.first) if self.reasons is None else _cut(self.reasons, span)
        before = max(0, min(self.since, span.end) - span.first)
        codes[:before] = bytes([reasons.code(NOT_SEEN)]) * before
        for slot, reason in unclosed.items():
            if span.first <= slot < span.end:
                index = slot - span.first
                codes[index], last[index], top[index] = reason, math.nan, math.nan
        return Series(last, top, reasons.gaps(bytes(codes)))


def _cut(slots: _Slots, span: Span) -> _Slots:
    begin, count = span.first % LENGTH, span.end - span.first
    return slots[begin : begin + count] + slots[: max(0, begin + count - LENGTH)]


class Device:
    """The lines of a device, its newest slot with a value, and the device as currently shown (None while it is not listed)."""

    __slots__ = ("lines", "newest", "shown")

    def __init__(self, slot: int) -> None:
        self.newest = slot
        self.lines: list[Line | None] = [None] * len(KEPT)
        self.shown: MergedDevice | None = None

    def take(self, device: MergedDevice, giver_of: Callable[[Origin], Giver], slot: int) -> None:
        """Accept the current values of the device. A new line begins with this slot."""
        self.shown, readings = device, Readings.of(device.readings)
        origins = readings.shape.origins
        for number, (value, chosen) in enumerate(zip(kept_values(device), kept_places(readings.shape), strict=True)):
            line = self.lines[number]
            if value is None or isinstance(value, Absent):
                if line is not None:
                    line.value = value
                continue
            if line is None:
                line = self.lines[number] = Line(slot)
            line.take(value, giver_of(readings.origins[origins[chosen[0]]]))

    def end(self, slot: int, why: Callable[[Device, Line], int]) -> None:
        """End the open slot. `why` returns the reason for a line without a value."""
        for line in self.lines:
            if line is not None and line.end(slot):
                self.newest = slot
            elif line is not None:
                line.lack(slot, why(self, line))

    def begin(self, *, in_force: bool) -> None:
        """Begin a slot with the current values."""
        for line in self.lines:
            if line is not None:
                line.begin(in_force=in_force)

    def leave(self) -> None:
        """Note that the device is no longer listed."""
        self.shown = None
        for line in self.lines:
            if line is not None:
                line.value = None


class History:
    """Thread-safe. A slot is numbered by its 5 s since boot, whatever the wall clock shows."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._reasons = Reasons()
        self._devices: dict[str, Device] = {}
        # Times of events are seconds since boot.
        self._events: deque[PastEvent] = deque(maxlen=MOST_EVENTS)
        self._unclosed: dict[int, int] = {}
        self._outages: Mapping[Giver, str] = {}
        self._looked, self._slept = self._now(), clock.slept()
        self._valid_until = self._looked
        self._first = self._open = int(self._looked // SLOT_SECONDS)

    def newest(self) -> int:
        """Return the number of the next slot to end."""
        return self._open

    def slot_of_time(self, wall_time: float) -> int:
        """Return the slot that contains this Unix time."""
        return int((wall_time - self._clock.boot_time() + _SLEW_SECONDS) // SLOT_SECONDS)

    def see(self, devices: Sequence[MergedDevice], healths: Mapping[Giver, Health], valid_until: float) -> None:
        """Read the devices, which are current until `valid_until` (monotonic) or the next call."""
        with self._lock:
            still_in_force = self._end_slots(self._now())
            givers = {(health.source, health.attempted_monotonic): key for key, health in healths.items()}
            for device in devices:
                kept = self._devices.get(device.id)
                if kept is None or kept.shown is not device or not still_in_force:
                    self._take(device, kept or Device(self._open), givers)
            for gone in self._devices.keys() - {device.id for device in devices}:
                self._devices[gone].leave()
            self._outages = outages(healths, self._clock.monotonic())
            self._valid_until = valid_until + self._clock.slept()

    def event(self, event: PastEvent) -> None:
        """Add an event, and drop the oldest if there are too many."""
        ahead = self._clock.boot_time()
        with self._lock:
            self._events.append(replace(event, wall_time=event.wall_time - ahead))

    def look(self, snapshot: Callable[[], Snapshot]) -> None:
        """End the slots that are over, even if no poll came. Call this once per slot."""
        snapshot()  # notices expired reports
        with self._lock:
            now = self._now()
            # The next call handles what has expired since the line above.
            if now < self._valid_until and not self._end_slots(now):
                self._begin(self._open, in_force=True)

    def forget(self, device_id: str) -> None:
        """Drop the history of a device that is gone for good."""
        with self._lock:
            self._devices.pop(device_id, None)
            kept = [event for event in self._events if event.id != device_id]
            self._events = deque(kept, maxlen=MOST_EVENTS)

    def clear(self) -> None:
        """Drop the history of all devices. Recording continues with the next slot."""
        with self._lock:
            self._devices.clear()
            self._events.clear()
            self._unclosed.clear()
            self._outages = {}
            self._looked = self._valid_until = self._now()
            self._first = self._open = int(self._looked // SLOT_SECONDS)

    def ids(self) -> tuple[str, ...]:
        """Return the ids of the devices that have a history."""
        with self._lock:
            return tuple(self._devices)

    def past(
        self,
        ids: Collection[str] | None = None,
        metrics: Collection[str] = KEPT,
        first: int = 0,
        end: int | None = None,
    ) -> Past:
        """Return the slots that have ended from number `first` up to `end`, of all devices or of these, and the events since then."""
        ahead = self._clock.boot_time()
        with self._lock:
            span = self._span(first, self._open if end is None else end)
            events = [event for event in self._events if first <= 0 or event.wall_time >= SLOT_SECONDS * first]
            return Past(
                start=SLOT_SECONDS * span.first + ahead,
                slots=span.end - span.first,
                first=span.first,
                devices={
                    device_id: self._series(span, device_id, metrics)
                    for device_id in (self._devices if ids is None else ids)
                },
                events=tuple(replace(event, wall_time=event.wall_time + ahead) for event in events),
            )

    def _span(self, first: int, end: int) -> Span:
        oldest = max(self._first, min(self._open, end) - SLOTS)
        return Span(min(max(first, oldest), end), end)

    def _series(self, span: Span, device_id: str, metrics: Collection[str]) -> Mapping[str, Series]:
        device = self._devices.get(device_id)
        overwritten = range(span.first, min(self._open - LENGTH, span.end))
        unclosed = self._unclosed | dict.fromkeys(overwritten, self._reasons.code(NO_LONGER_KEPT))
        return {
            metric: line.series(span, unclosed, self._reasons)
            for metric, line in zip(KEPT, device.lines if device is not None else (), strict=False)
            if line is not None and metric in metrics
        }

    def _now(self) -> float:
        return self._clock.monotonic() + self._clock.slept()

    def _take(self, device: MergedDevice, kept: Device, givers: Mapping[tuple[str, float], Giver]) -> None:
        if device.id not in self._devices and len(self._devices) >= MOST_DEVICES:
            return
        kept.take(device, lambda origin: givers.get((origin.source, origin.taken), (origin.source, "")), self._open)
        if any(kept.lines):
            self._devices[device.id] = kept

    def _end_slots(self, now: float) -> bool:
        """End the slots that are over with what was current until now. Return whether it was still current when the present slot began."""
        slept = self._clock.slept()
        has_slept = slept - self._slept >= SHORTEST_SLEEP_SECONDS
        silence = SLEPT if has_slept else NOT_CLOSED if now - self._looked > LONGEST_SILENCE_SECONDS else ""
        self._looked, self._slept = now, slept if has_slept else self._slept
        before, present = self._open, int(now // SLOT_SECONDS)
        if present <= before:
            return True
        self._end(before)
        for slot in range(max(before + 1, present - LENGTH), present):
            if silence:
                self._unclosed[slot] = self._reasons.code(silence)
            else:
                self._begin(slot, in_force=SLOT_SECONDS * slot < self._valid_until)
                self._end(slot)
        in_force = not silence and SLOT_SECONDS * present < self._valid_until
        self._begin(present, in_force=in_force)
        self._open = present
        return in_force

    def _end(self, slot: int) -> None:
        for device in self._devices.values():
            device.end(slot, self._why)

    def _begin(self, slot: int, *, in_force: bool) -> None:
        for device in self._devices.values():
            device.begin(in_force=in_force)
        self._unclosed = {gap_slot: reason for gap_slot, reason in self._unclosed.items() if gap_slot >= slot - LENGTH}
        over = [
            device_id for device_id, kept in self._devices.items() if kept.shown is None and kept.newest < slot - SLOTS
        ]
        for device_id in over:
            del self._devices[device_id]

    def _why(self, device: Device, line: Line) -> int:
        return self._reasons.code(reason(device.shown, line, self._outages))


def reason(shown: MergedDevice | None, line: Line, outages: Mapping[Giver, str]) -> str:
    """Return why a line has no value: the device is lost or suspended, its source failed, or the reading is absent."""
    if shown is not None and shown.up is False:
        return LOST
    if shown is not None and Readings.of(shown.readings).value("suspended") == 1.0:
        return ASLEEP
    source = line.giver[0]
    if outage := outages.get(line.giver, "removed") or outages.get((source, ""), ""):
        return f"{source}: {outage}"
    if line.value is None:
        return NOT_GIVEN
    return line.value.value if isinstance(line.value, Absent) else f"{source}: expired"


def outages(healths: Mapping[Giver, Health], now: float) -> Mapping[Giver, str]:
    """Return for each (source, poll) why it has no result now (empty if it has one), and for (source, "") the same for its lists."""
    words = {key: _outage(health, now) for key, health in healths.items()}
    sources = {(source, ""): "" for source, _ in words}
    lists = {(key[0], ""): word for key, word in words.items() if word and healths[key].lists_devices}
    return {**words, **sources, **lists}


def _outage(health: Health, now: float) -> str:
    if health.state in ("ok", "no_devices"):
        return "" if is_up(health, now) else "expired"
    return (health.reason or health.state).replace("_", " ")
