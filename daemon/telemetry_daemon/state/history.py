"""The last half hour of each device, in slots of five seconds: its last and its highest values, or why there is none.

A slot is closed by a job, from the snapshot of that moment, so what has expired by then is a gap. A slot that nobody closed is one, too.
"""

from __future__ import annotations

import math
import threading
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from telemetry_daemon.times import Clock
from telemetry_exporters.past import (
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
from telemetry_parsers import bounds
from telemetry_parsers.model import Absent, MergedDevice, Snapshot, SourceStatus
from telemetry_parsers.readings import Readings

NOT_CLOSED, NOT_SEEN, NOT_GIVEN, NO_LONGER_KEPT = (
    "daemon was held up",
    "not seen yet",
    "no source gives it",
    "no longer kept",
)
ASLEEP, LOST, SLEPT = "asleep", "lost", "machine slept"
# Of more devices than that no history is kept: each takes up to 24 kB.
MOST_KEPT = 2 * bounds.MOST_DEVICES
_NAN = math.nan
_NOTHING: tuple[None, ...] = (None,) * len(KEPT)
_GOOD_STATES = frozenset({"ok", "no_devices"})


@dataclass(slots=True)
class _Track:
    """One metric of one device; a place for each slot, and the gaps as runs of slots with one reason."""

    last: array[float] | None = None
    highest: array[float] | None = None
    gaps: deque[Gap] = field(default_factory=deque)
    source: str = ""

    def put(self, slot: int, last: float, highest: float) -> None:
        """The numbers of a slot."""
        if self.last is None or self.highest is None:
            self.last, self.highest = array("f", [_NAN]) * SLOTS, array("f", [_NAN]) * SLOTS
        self.last[slot % SLOTS], self.highest[slot % SLOTS] = last, highest

    def leave_out(self, first: int, slots: int, reason: str) -> None:
        """So many slots have no number, for that reason."""
        if self.last is not None and self.highest is not None:
            for slot in range(max(first, first + slots - SLOTS), first + slots):
                self.last[slot % SLOTS] = self.highest[slot % SLOTS] = _NAN
        before = self.gaps[-1] if self.gaps else None
        if before is not None and before.reason == reason and before.first + before.slots == first:
            self.gaps[-1] = Gap(before.first, before.slots + slots, reason)
        else:
            self.gaps.append(Gap(first, slots, reason))
        while self.gaps and self.gaps[0].first + self.gaps[0].slots <= first + slots - SLOTS:
            self.gaps.popleft()


@dataclass(slots=True)
class _Kept:
    """What is kept of one device, and the highest numbers since the last slot was closed."""

    since: int
    tracks: tuple[_Track, ...] = field(default_factory=lambda: tuple(_Track() for _ in KEPT))
    highest: list[float] = field(default_factory=lambda: [-math.inf] * len(KEPT))
    noted: MergedDevice | None = None
    listed: int = 0


class History:
    """Notes the numbers of each merge and closes the slots; safe to use from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._devices: dict[str, _Kept] = {}
        self._events: deque[PastEvent] = deque(maxlen=MOST_EVENTS)
        self._first = self._next = self.slot_of(clock.monotonic())
        self._slept = clock.slept()

    @staticmethod
    def slot_of(monotonic: float) -> int:
        """The number of the slot that ends nearest to that moment; the job that closes slots may be early or late."""
        return round(monotonic / SLOT_SECONDS)

    def newest(self) -> int:
        """The number of the slot that will be closed next."""
        return self._next

    def note(self, devices: Sequence[MergedDevice]) -> None:
        """Take in the devices of a merge: what is highest in this slot."""
        with self._lock:
            for device in devices:
                kept = self._kept(device.id)
                if kept is None or kept.noted is device:
                    continue
                kept.noted = device
                kept.highest = [
                    highest if value is None or isinstance(value, Absent) else max(value, highest)
                    for value, highest in zip(kept_values(device), kept.highest, strict=True)
                ]

    def event(self, event: PastEvent) -> None:
        """Keep an event; the oldest goes when there are too many."""
        with self._lock:
            self._events.append(event)

    def forget(self, device_id: str) -> None:
        """Drop what is kept of a device that is gone for good."""
        with self._lock:
            self._devices.pop(device_id, None)

    def close_slot(self, snapshot: Snapshot) -> None:
        """The slot that ends now has what the snapshot tells; slots that were missed are gaps."""
        with self._lock:
            slot = self.slot_of(self._clock.monotonic()) - 1
            if slot < self._next:
                return
            self._mark_missed(slot)
            sources = {source.source: source for source in snapshot.sources}
            listed = {device.id: device for device in snapshot.devices}
            for device_id in listed:
                self._kept(device_id)
            for device_id, kept in list(self._devices.items()):
                self._close(slot, kept, listed.get(device_id), sources)
                if slot - kept.listed >= SLOTS:
                    del self._devices[device_id]
            self._next = slot + 1

    def past(
        self, ids: Iterable[str] | None = None, metrics: Sequence[str] = KEPT, first: int = 0, end: int | None = None
    ) -> Past:
        """The closed slots from `first` on, at most so many as are kept; of all devices or of these."""
        with self._lock:
            end = self._next if end is None else end
            oldest = max(self._first, self._next - SLOTS)
            first = max(first, min(oldest, end), end - SLOTS)
            window = range(first, max(first, end))
            wanted = self._devices if ids is None else {one: self._devices[one] for one in ids if one in self._devices}
            ahead = self._clock.wall() - self._clock.monotonic()
            return Past(
                start=first * SLOT_SECONDS + ahead,
                slots=len(window),
                devices={
                    device_id: {
                        metric: _series(track, kept.since, oldest, window)
                        for metric, track in zip(KEPT, kept.tracks, strict=True)
                        if metric in metrics
                    }
                    for device_id, kept in wanted.items()
                },
                events=tuple(event for event in self._events if event.wall_time >= first * SLOT_SECONDS + ahead),
            )

    def slot_of_time(self, wall_time: float) -> int:
        """The slot that begins nearest to that Unix time."""
        return self.slot_of(wall_time - self._clock.wall() + self._clock.monotonic())

    def ids(self) -> tuple[str, ...]:
        """The devices of which something is kept."""
        with self._lock:
            return tuple(self._devices)

    def _kept(self, device_id: str) -> _Kept | None:
        kept = self._devices.get(device_id)
        if kept is None and len(self._devices) < MOST_KEPT:
            kept = self._devices[device_id] = _Kept(self._next, listed=self._next)
        return kept

    def _mark_missed(self, slot: int) -> None:
        missed = slot - self._next
        slept, self._slept = self._clock.slept() - self._slept, self._clock.slept()
        reason = SLEPT if slept >= SLOT_SECONDS else NOT_CLOSED
        if missed > 0:
            for kept in self._devices.values():
                for track in kept.tracks:
                    track.leave_out(self._next, missed, reason)

    def _close(self, slot: int, kept: _Kept, device: MergedDevice | None, sources: Mapping[str, SourceStatus]) -> None:
        if device is not None:
            kept.listed = slot
        values = kept_values(device) if device is not None else _NOTHING
        for place, (track, value) in enumerate(zip(kept.tracks, values, strict=True)):
            if value is None or isinstance(value, Absent):
                track.leave_out(slot, 1, _reason(device, value, sources.get(track.source)))
            else:
                track.put(slot, value, max(value, kept.highest[place]))
        if device is not None:
            self._learn_sources(kept, device)
        kept.highest = [-math.inf] * len(KEPT)
        # The same device may stay for many slots: then its numbers are the highest of each.
        kept.noted = None

    @staticmethod
    def _learn_sources(kept: _Kept, device: MergedDevice) -> None:
        readings = Readings.of(device.readings)
        for track, places in zip(kept.tracks, kept_places(readings.shape), strict=True):
            if places:
                track.source = readings.origins[readings.shape.origins[places[0]]].source


def _reason(device: MergedDevice | None, value: Absent | None, source: SourceStatus | None) -> str:
    """Why a device has no number."""
    if isinstance(value, Absent):
        return value.value
    if device is not None and device.up is False:
        return LOST
    if device is not None and Readings.of(device.readings).value("suspended") == 1.0:
        return ASLEEP
    if source is not None and source.state not in _GOOD_STATES:
        return f"{source.source}: {source.reason or source.state}".replace("_", " ")
    return NOT_GIVEN


def _series(track: _Track, since: int, oldest: int, window: range) -> Series:
    """The track's part in the window; before `since` the device was not seen, before `oldest` nothing is kept."""
    known = range(min(max(window.start, oldest, since), window.stop), window.stop)
    before = window.start, known.start
    gaps = [Gap(*each) for each in _unknown(window, oldest, since)]
    for gap in track.gaps:
        first, end = max(gap.first, known.start), min(gap.first + gap.slots, window.stop)
        if first < end:
            gaps.append(Gap(first - window.start, end - first, gap.reason))
    blank = array("f", [_NAN]) * (before[1] - before[0])
    return Series(blank + _ring(track.last, known), blank + _ring(track.highest, known), tuple(gaps))


def _unknown(window: range, oldest: int, since: int) -> Iterator[tuple[int, int, str]]:
    no_longer = min(max(oldest - window.start, 0), len(window))
    if no_longer:
        yield 0, no_longer, NO_LONGER_KEPT
    unseen = min(max(since - window.start, no_longer), len(window))
    if unseen > no_longer:
        yield no_longer, unseen - no_longer, NOT_SEEN


def _ring(numbers: array[float] | None, slots: range) -> array[float]:
    if numbers is None or not slots:
        return array("f", [_NAN]) * len(slots)
    begin, end = slots.start % SLOTS, slots.stop % SLOTS
    return numbers[begin:end] if begin < end else numbers[begin:] + numbers[:end]
