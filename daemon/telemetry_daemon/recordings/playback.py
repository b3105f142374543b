"""Brings what was recorded into a store: each capture once, in its order and at its time, from any place on."""

from __future__ import annotations

import itertools
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator

from telemetry_daemon.recordings.parsed_captures import StoreFeed
from telemetry_daemon.recordings.playback_clock import PlaybackClock
from telemetry_daemon.recordings.recording_file import RecordingError, RecordingFile
from telemetry_daemon.recordings.survey import Key, PlacedCapture, Survey, placed_captures
from telemetry_daemon.state.history import History
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_exporters import human
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.past import SLOT_SECONDS, SLOTS
from telemetry_parsers.recorded import Recorded

log = logging.getLogger(__name__)

# Who begins in the middle sees what came of the half hour before, as the history does. What is older counts only as far
# as it is the newest of its poll.
LOOK_BACK_SECONDS = SLOTS * SLOT_SECONDS
# Between the end of a recording and its next beginning, at any speed; one capture alone is shown again so often.
PAUSE_SECONDS = 2.0
_ENDED, _BROKEN = "ended", "cannot be played on"


@dataclass(frozen=True, slots=True)
class PlaybackOptions:
    """How a recording is played: from which place, how fast, whether again and again, and whether it tells the time of then or of now."""

    place: float = 0.0
    speed: float = 1.0
    loops: bool = True
    tells_then: bool = True


class Playback:
    """Puts the captures of a recording into a store when their time has come."""

    def __init__(
        self,
        file: RecordingFile,
        length: float,
        clock: PlaybackClock,
        store: Store,
        feed: StoreFeed,
        history: History,
        *,
        loops: bool,
    ) -> None:
        self._file = file
        self._length = length
        self._clock = clock
        self._store = store
        self._feed = feed
        self._history = history
        self._loops = loops
        self._slot = 0

    def run(self) -> None:
        """Play from where the clock is to be, until it is closed."""
        while not self._clock.is_over:
            self._perform()

    def begin(self) -> Iterator[PlacedCapture]:
        """Seek to the position of the clock; the previous view is shown until the new one is complete. Raises RecordingError."""
        with self._store.frozen_view(), self._clock.held():
            rest = self._built(self._clock.set_out())
            while self._clock.is_elsewhere() and not self._clock.is_over:
                rest = self._built(self._clock.set_out())
        self._store.renew()
        return rest

    def _perform(self) -> None:
        """From where somebody wants to be to the end, or until somebody wants to be elsewhere."""
        try:
            self._play(self.begin())
        except RecordingError as error:  # it was changed or removed since it was surveyed
            log.error("the recording cannot be played on", extra={"error": error})  # the text says all
            self._clock.allow(self._clock.place())  # what is shown does not grow old
            self._halt(_BROKEN)

    def _built(self, goal: float) -> Iterator[PlacedCapture]:
        """Have in the store what there was there, unless somebody wants to be elsewhere meanwhile, and give what came after it."""
        first = max(0.0, goal - LOOK_BACK_SECONDS)
        newest, rest = self._until(first)
        if self._clock.is_elsewhere():
            return rest
        self._slot = int(first // SLOT_SECONDS)
        self._clock.put(first, goal)
        self._store.reset()
        self._feed.set()
        for one in newest:
            self._put(one)
        rest = self._caught_up(rest, goal)
        if not self._clock.is_elsewhere():
            self._reach(goal, goal)
        return rest

    def _until(self, first: float) -> tuple[list[PlacedCapture], Iterator[PlacedCapture]]:
        """The newest of each poll up to that place, and what came after it; nothing if somebody wants to be elsewhere."""
        newest: dict[Key, PlacedCapture] = {}
        # What was written behind it since it was surveyed has no place in its time.
        every = itertools.takewhile(lambda one: one.place <= self._length, placed_captures(self._file))
        for one in every:
            if self._clock.is_elsewhere():
                return [], iter(())
            if one.place > first:
                return list(newest.values()), _and(one, every)
            newest[one.key] = one
        return list(newest.values()), iter(())

    def _caught_up(self, every: Iterator[PlacedCapture], goal: float) -> Iterator[PlacedCapture]:
        """Put what came up to the goal, unless somebody wants to be elsewhere meanwhile, and give the rest."""
        for one in every:
            if one.place > goal or self._clock.is_elsewhere():
                return _and(one, every)
            self._reach(one.place, goal)
            self._put(one)
        return iter(())

    def _play(self, rest: Iterator[PlacedCapture]) -> None:
        """Put each capture at its time."""
        for one in rest:
            self._clock.allow(one.place)
            if not self._is_there(one.place):
                return
            self._put(one)
        if not self._is_there(self._length):
            return
        self._clock.allow(self._length)
        if self._loops:
            self._clock.begin_anew(PAUSE_SECONDS)
        else:
            self._halt(_ENDED)

    def _is_there(self, place: float) -> bool:
        """Wait until it is that time, and end the slots until then; False if somebody wants to be elsewhere."""
        while self._clock.place() < place and not self._clock.is_elsewhere():
            self._clock.wait(min(place, self._slot_end()))
            self._look()
        return not self._clock.is_elsewhere()

    def _halt(self, why: str) -> None:
        """Stay where it is until somebody wants to be elsewhere."""
        self._clock.halt(why)
        self._store.renew()
        self._clock.wait(math.inf)

    def _reach(self, place: float, goal: float) -> None:
        """Be at that place on the way to the goal; the slots until there end."""
        while self._slot_end() <= place:
            self._clock.put(max(self._slot_end(), self._clock.place()), goal)
            self._look()
        self._clock.put(max(place, self._clock.place()), goal)

    def _slot_end(self) -> float:
        return (self._slot + 1) * SLOT_SECONDS

    def _look(self) -> None:
        """End the slots of the history that are over."""
        self._slot = int(self._clock.place() // SLOT_SECONDS)
        self._history.look(self._store.current)

    def _put(self, one: PlacedCapture) -> None:
        late = max(0.0, self._clock.place() - one.place) + one.age
        self._feed.put(one.capture, late)


def _and(first: PlacedCapture, rest: Iterator[PlacedCapture]) -> Iterator[PlacedCapture]:
    yield first
    yield from rest


class PlaybackControls:
    """Has a recording played by a thread, paused, sought and ended; `clock` is the time that passes for who looks at it. Safe to use from any thread."""

    def __init__(self, file: RecordingFile, survey: Survey, options: PlaybackOptions) -> None:
        self.survey = survey
        self._file = file
        self._options = options
        self._clock = PlaybackClock(options.place, options.speed)
        self._is_started = False
        self._shown_anew: Callable[[], None] = lambda: None
        self.clock = Clock(self._clock.monotonic, self._wall, lambda: 0.0)

    def start(self, store: Store, feed: StoreFeed, history: History) -> None:
        """Begin to play."""
        playback = self._on(store, feed, history)
        self._is_started, self._shown_anew = True, store.renew
        self._clock.run()
        threading.Thread(target=playback.run, name="playback", daemon=True).start()

    def show(self, store: Store, feed: StoreFeed, history: History) -> None:
        """Show the place that is wanted, and do not play on. Raises RecordingError."""
        self._on(store, feed, history).begin()

    def close(self) -> None:
        """End."""
        self._clock.close()

    def recorded(self) -> Recorded:
        """When what is shown was recorded, where, and how it is played."""
        shown = min(self._clock.place(), self.survey.length)
        return Recorded(self.wall_time(0.0), self.survey.hostname, self.wall_time(shown), self.how())

    def wall_time(self, place: float) -> float:
        """The Unix time at which that place was recorded."""
        return self.survey.wall_times.at(place)

    def how(self) -> str:
        """A word where it is not just played."""
        speed = f"{self.speed:g} ×" if self.speed != 1.0 else ""
        state = self._clock.halted() or ("paused" if self._is_started and not self._clock.runs else "")
        goal = self._clock.goal()
        way = "" if goal is None else f"on its way to {human.utc(self.wall_time(goal))}"
        return ", ".join(filter(None, (speed, state, way)))

    @property
    def place(self) -> float:
        """The seconds from the beginning, of where it is or is about to be."""
        return min(self._clock.heading(), self.survey.length)

    @property
    def speed(self) -> float:
        """How many seconds of the recording pass in one."""
        return self._clock.speed

    def pause(self) -> None:
        """Stand still."""
        self._clock.stop()
        self._shown_anew()

    def go_on(self) -> None:
        """Play; after the end from the beginning."""
        if self._clock.halted() == _ENDED:
            self.seek(0.0)
        self._clock.run()
        self._shown_anew()

    def toggle(self) -> None:
        """Stand still, or go on; after the end from the beginning."""
        if self._clock.runs and self._clock.halted() != _ENDED:
            self.pause()
        else:
            self.go_on()

    def seek(self, place: float) -> None:
        """Go to that place, at most to the end; who stands still stays still there."""
        self._clock.want(min(max(0.0, place), self.survey.length))
        self._shown_anew()

    def set_speed(self, speed: float) -> None:
        """Play so many times as fast from now on."""
        self._clock.set_speed(speed)
        self._shown_anew()

    def _on(self, store: Store, feed: StoreFeed, history: History) -> Playback:
        return Playback(self._file, self.survey.length, self._clock, store, feed, history, loops=self._options.loops)

    def _wall(self) -> float:
        """The time of then, or that of now less what is still to be caught up with."""
        if self._options.tells_then:
            return self.wall_time(self._clock.place())
        return time.time() - self._clock.behind
