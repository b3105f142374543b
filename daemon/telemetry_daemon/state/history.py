"""The node's last half hour in slots of 5 s: the last and the highest number of each metric, read by pages, documents and `telemetry top`."""

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

# A minute more than is shown, for those who take their time to read.
LENGTH = SLOTS + 12
# Why a line has no number before its first.
NOT_SEEN = "not seen yet"
_NUMBER = 0
_MOST_REASONS = 255
_RUN = re.compile(rb"([^\x00])\1*", re.DOTALL)

# The (source, poll) that gave a number.
Giver = tuple[str, str]
_Slots = TypeVar("_Slots", "array[float]", bytearray)
# As many devices as one source may list. A node with more keeps the past of the first devices with a number.
MOST_DEVICES = bounds.MOST_DEVICES
# The store is read at least once in each slot. After a longer pause no scrape could have been answered.
LONGEST_SILENCE_SECONDS = 1.5 * SLOT_SECONDS
SHORTEST_SLEEP_SECONDS = 1.0
# The wall clock is slewed: a slot that ended this little after a moment had ended at that moment.
_SLEW_SECONDS = 0.5
NOT_CLOSED, NOT_GIVEN, NO_LONGER_KEPT = "daemon was held up", "no source gives it", "no longer kept"
ASLEEP, LOST, SLEPT = "asleep", "lost", "machine slept"


class Reasons:
    """Each reason why there is no number as one byte."""

    def __init__(self) -> None:
        self._texts = ["", "unknown"]
        self._codes = {"": _NUMBER, "unknown": 1}

    def code(self, text: str) -> int:
        """The byte of a reason; that of `unknown` when there are more reasons than bytes."""
        if text not in self._codes and len(self._texts) <= _MOST_REASONS:
            self._codes[text] = len(self._texts)
            self._texts.append(text)
        return self._codes.get(text, 1)

    def gaps(self, codes: bytes) -> tuple[Gap, ...]:
        """The gaps between numbers, one for each row of slots with the same reason."""
        found = _RUN.finditer(codes) if codes.count(_NUMBER) < len(codes) else ()
        return tuple(Gap(run.start(), run.end() - run.start(), self._texts[codes[run.start()]]) for run in found)


@dataclass(frozen=True, slots=True)
class Span:
    """The slots from the number `first` up to `end`, which is not among them."""

    first: int
    end: int


@dataclass(slots=True)
class Line:
    """One metric: its slots from the number `since` on, what the open slot has seen, the value in force, who gave the last number."""

    since: int
    last: array[float] = field(default_factory=lambda: array("f", [math.nan]) * LENGTH)
    # None while the last number of each slot was its highest, as for a constant limit.
    highest: array[float] | None = None
    reasons: bytearray | None = None
    newest: float = math.nan
    top: float = math.nan
    value: Value | None = None
    giver: Giver = ("", "")

    def take(self, value: float, giver: Giver) -> None:
        """Take a number that is in force from now on."""
        self.value, self.giver, self.newest = value, giver, value
        if not value <= self.top:
            self.top = value

    def end(self, slot: int) -> bool:
        """End the open slot; whether it had a number."""
        place, has_number = slot % LENGTH, self.newest == self.newest
        if self.highest is None and self.top > self.newest:
            self.highest = self.last[:]
        self.last[place] = self.newest
        if self.highest is not None:
            self.highest[place] = self.top
        if self.reasons is not None:
            self.reasons[place] = _NUMBER
        return has_number

    def lack(self, slot: int, reason: int) -> None:
        """Note why a slot that has ended had no number."""
        self.reasons = self.reasons or bytearray(LENGTH)
        self.reasons[slot % LENGTH] = reason

    def begin(self, *, in_force: bool) -> None:
        """Begin a slot, with the number that is still in force if it is."""
        self.newest = self.top = math.nan
        if in_force and self.value is not None and not isinstance(self.value, Absent):
            self.newest = self.top = self.value

    def series(self, span: Span, unclosed: Mapping[int, int], reasons: Reasons) -> Series:
        """These slots of the line; `unclosed` are slots of which nothing is kept, and why."""
        last = _cut(self.last, span)
        top = last if self.highest is None else _cut(self.highest, span)
        codes = bytearray(span.end - span.first) if self.reasons is None else _cut(self.reasons, span)
        before = max(0, min(self.since, span.end) - span.first)
        codes[:before] = bytes([reasons.code(NOT_SEEN)]) * before
        for slot, reason in unclosed.items():
            if span.first <= slot < span.end:
                place = slot - span.first
                codes[place], last[place], top[place] = reason, math.nan, math.nan
        return Series(last, top, reasons.gaps(bytes(codes)))


def _cut(slots: _Slots, span: Span) -> _Slots:
    """A copy of these slots, oldest first."""
    begin, count = span.first % LENGTH, span.end - span.first
    return slots[begin : begin + count] + slots[: max(0, begin + count - LENGTH)]


class Device:
    """The lines of one device, the newest slot with a number, and the device as it is shown now: None while it is not listed."""

    __slots__ = ("lines", "newest", "shown")

    def __init__(self, slot: int) -> None:
        self.newest = slot
        self.lines: list[Line | None] = [None] * len(KEPT)
        self.shown: MergedDevice | None = None

    def take(self, device: MergedDevice, giver_of: Callable[[Origin], Giver], slot: int) -> None:
        """Take the numbers of the device as it is shown from now on; a line that is new begins with this slot."""
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
        """End the open slot; `why` tells the reason of a line that has no number in it."""
        for line in self.lines:
            if line is not None and line.end(slot):
                self.newest = slot
            elif line is not None:
                line.lack(slot, why(self, line))

    def begin(self, *, in_force: bool) -> None:
        """Begin a slot, with the numbers that are still in force if they are."""
        for line in self.lines:
            if line is not None:
                line.begin(in_force=in_force)

    def leave(self) -> None:
        """Note that the device is not listed any more."""
        self.shown = None
        for line in self.lines:
            if line is not None:
                line.value = None


class History:
    """Safe to use from any thread. A slot has the number of its 5 s since the machine was started, whatever the wall clock says."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._reasons = Reasons()
        self._devices: dict[str, Device] = {}
        # Times of events are seconds since the machine's start.
        self._events: deque[PastEvent] = deque(maxlen=MOST_EVENTS)
        self._unclosed: dict[int, int] = {}
        self._outages: Mapping[Giver, str] = {}
        self._looked, self._slept = self._now(), clock.slept()
        self._valid_until = self._looked
        self._first = self._open = int(self._looked // SLOT_SECONDS)

    def newest(self) -> int:
        """The number of the slot that will end next."""
        return self._open

    def slot_of_time(self, wall_time: float) -> int:
        """The slot that Unix time lies in."""
        return int((wall_time - self._clock.wall_ahead() + _SLEW_SECONDS) // SLOT_SECONDS)

    def see(self, devices: Sequence[MergedDevice], healths: Mapping[Giver, Health], valid_until: float) -> None:
        """Take what is known from now on, until `valid_until` (monotonic) if nothing comes before."""
        with self._lock:
            still_in_force = self._end_slots(self._now())
            givers = {(one.source, one.attempted_monotonic): key for key, one in healths.items()}
            for device in devices:
                kept = self._devices.get(device.id)
                if kept is None or kept.shown is not device or not still_in_force:
                    self._take(device, kept or Device(self._open), givers)
            for gone in self._devices.keys() - {device.id for device in devices}:
                self._devices[gone].leave()
            self._outages = outages(healths, self._clock.monotonic())
            self._valid_until = valid_until + self._clock.slept()

    def event(self, event: PastEvent) -> None:
        """Keep an event; the oldest goes when there are too many."""
        ahead = self._clock.wall_ahead()
        with self._lock:
            self._events.append(replace(event, wall_time=event.wall_time - ahead))

    def look(self, snapshot: Callable[[], Snapshot]) -> None:
        """End the slots that are over, whether or not any poll came; to be called once in each slot."""
        snapshot()  # what has expired meanwhile is seen
        with self._lock:
            now = self._now()
            # What has expired since the line above is for the next look.
            if now < self._valid_until and not self._end_slots(now):
                self._begin(self._open, in_force=True)

    def forget(self, device_id: str) -> None:
        """Drop the past of a device that is gone for good."""
        with self._lock:
            self._devices.pop(device_id, None)
            kept = [event for event in self._events if event.id != device_id]
            self._events = deque(kept, maxlen=MOST_EVENTS)

    def clear(self) -> None:
        """Drop the past of all devices; what comes is kept from the next slot on."""
        with self._lock:
            self._devices.clear()
            self._events.clear()
            self._unclosed.clear()
            self._outages = {}
            self._looked = self._valid_until = self._now()
            self._first = self._open = int(self._looked // SLOT_SECONDS)

    def ids(self) -> tuple[str, ...]:
        """The devices that have a past."""
        with self._lock:
            return tuple(self._devices)

    def past(
        self,
        ids: Collection[str] | None = None,
        metrics: Collection[str] = KEPT,
        first: int = 0,
        end: int | None = None,
    ) -> Past:
        """The slots that have ended, from the number `first` up to `end`, of all devices or of these, and the events since then."""
        ahead = self._clock.wall_ahead()
        with self._lock:
            span = self._span(first, self._open if end is None else end)
            events = [event for event in self._events if first <= 0 or event.wall_time >= SLOT_SECONDS * first]
            return Past(
                start=SLOT_SECONDS * span.first + ahead,
                slots=span.end - span.first,
                first=span.first,
                devices={one: self._series(span, one, metrics) for one in (self._devices if ids is None else ids)},
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
        """Seconds since the machine was started, those for which it slept among them."""
        return self._clock.monotonic() + self._clock.slept()

    def _take(self, device: MergedDevice, kept: Device, givers: Mapping[tuple[str, float], Giver]) -> None:
        """Add a device's numbers. A device without any number, or without room, has no past."""
        if device.id not in self._devices and len(self._devices) >= MOST_DEVICES:
            return
        kept.take(device, lambda origin: givers.get((origin.source, origin.taken), (origin.source, "")), self._open)
        if any(kept.lines):
            self._devices[device.id] = kept

    def _end_slots(self, now: float) -> bool:
        """End the slots that are over by what was known until now; whether it still held when the present one began."""
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
        """Begin a slot; what was too long ago to be shown is dropped."""
        for device in self._devices.values():
            device.begin(in_force=in_force)
        self._unclosed = {one: reason for one, reason in self._unclosed.items() if one >= slot - LENGTH}
        over = [one for one, kept in self._devices.items() if kept.shown is None and kept.newest < slot - SLOTS]
        for device_id in over:
            del self._devices[device_id]

    def _why(self, device: Device, line: Line) -> int:
        """The code of the reason why a line has no number."""
        return self._reasons.code(reason(device.shown, line, self._outages))


def reason(shown: MergedDevice | None, line: Line, outages: Mapping[Giver, str]) -> str:
    """Why a line has no number: the device is lost or asleep, else its source failed, else what the source says."""
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
    """Of each (source, poll) why it has no answer now, empty if it has one; by (source, "") the same of its lists."""
    words = {key: _outage(one, now) for key, one in healths.items()}
    sources = {(source, ""): "" for source, _ in words}
    lists = {(key[0], ""): word for key, word in words.items() if word and healths[key].lists_devices}
    return {**words, **sources, **lists}


def _outage(one: Health, now: float) -> str:
    if one.state in ("ok", "no_devices"):
        return "" if is_up(one, now) else "expired"
    return (one.reason or one.state).replace("_", " ")
