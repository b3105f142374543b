"""Plays a recording into a store from any position: each capture once, in order, at its time."""

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

# A replay that begins in the middle shows the captures of the preceding half hour, as the history does. Of older
# captures, only the newest of each poll count.
LOOK_BACK_SECONDS = SLOTS * SLOT_SECONDS
# Between the end of a recording and its restart, at any speed; also the interval at which a single capture is repeated.
PAUSE_SECONDS = 2.0
_ENDED, _BROKEN = "ended", "cannot be played on"


@dataclass(frozen=True, slots=True)
class PlaybackOptions:
    """How to play a recording: start position, speed, whether in a loop, and whether times are those of the recording or of now."""

    position: float = 0.0
    speed: float = 1.0
    loops: bool = True
    keeps_times: bool = True


class Playback:
    """Puts the captures of a recording into a store at their times."""

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
        """Play from the clock's position until the playback is closed."""
        while not self._clock.is_over:
            self._perform()

    def begin(self) -> Iterator[PlacedCapture]:
        """Seek to the position of the clock; the previous view is shown until the new one is complete. Raises RecordingError."""
        with self._store.frozen_view(), self._clock.held():
            rest = self._built(self._clock.set_out())
            while self._clock.is_elsewhere() and not self._clock.is_over:
                rest = self._built(self._clock.set_out())
        self._store.refresh()
        return rest

    def _perform(self) -> None:
        try:
            self._play(self.begin())
        except RecordingError as error:  # the file was changed or removed after the survey
            log.error("the recording cannot be played on", extra={"error": error})  # the text contains everything
            self._clock.allow(self._clock.position())  # keeps what is shown from expiring
            self._halt(_BROKEN)

    def _built(self, goal: float) -> Iterator[PlacedCapture]:
        """Fill the store with the state at that position, unless another position is requested meanwhile, and return the captures after it."""
        first = max(0.0, goal - LOOK_BACK_SECONDS)
        newest, rest = self._until(first)
        if self._clock.is_elsewhere():
            return rest
        self._slot = int(first // SLOT_SECONDS)
        self._clock.jump_to(first, goal)
        self._store.reset()
        self._feed.set()
        for placed in newest:
            self._put(placed)
        rest = self._caught_up(rest, goal)
        if not self._clock.is_elsewhere():
            self._reach(goal, goal)
        return rest

    def _until(self, first: float) -> tuple[list[PlacedCapture], Iterator[PlacedCapture]]:
        """Return the newest capture of each poll up to that position, and the captures after it; nothing if another position is requested."""
        newest: dict[Key, PlacedCapture] = {}
        # Captures appended after the survey are beyond the surveyed time.
        every = itertools.takewhile(lambda placed: placed.position <= self._length, placed_captures(self._file))
        for placed in every:
            if self._clock.is_elsewhere():
                return [], iter(())
            if placed.position > first:
                return list(newest.values()), _and(placed, every)
            newest[placed.key] = placed
        return list(newest.values()), iter(())

    def _caught_up(self, every: Iterator[PlacedCapture], goal: float) -> Iterator[PlacedCapture]:
        for placed in every:
            if placed.position > goal or self._clock.is_elsewhere():
                return _and(placed, every)
            self._reach(placed.position, goal)
            self._put(placed)
        return iter(())

    def _play(self, rest: Iterator[PlacedCapture]) -> None:
        for placed in rest:
            self._clock.allow(placed.position)
            if not self._is_there(placed.position):
                return
            self._put(placed)
        if not self._is_there(self._length):
            return
        self._clock.allow(self._length)
        if self._loops:
            self._clock.begin_anew(PAUSE_SECONDS)
        else:
            self._halt(_ENDED)

    def _is_there(self, position: float) -> bool:
        """Wait for that position and end the slots before it. Return False if another position is requested."""
        while self._clock.position() < position and not self._clock.is_elsewhere():
            self._clock.wait(min(position, self._slot_end()))
            self._look()
        return not self._clock.is_elsewhere()

    def _halt(self, why: str) -> None:
        self._clock.halt(why)
        self._store.refresh()
        self._clock.wait(math.inf)

    def _reach(self, position: float, goal: float) -> None:
        while self._slot_end() <= position:
            self._clock.jump_to(max(self._slot_end(), self._clock.position()), goal)
            self._look()
        self._clock.jump_to(max(position, self._clock.position()), goal)

    def _slot_end(self) -> float:
        return (self._slot + 1) * SLOT_SECONDS

    def _look(self) -> None:
        self._slot = int(self._clock.position() // SLOT_SECONDS)
        self._history.end_slots(self._store.current)

    def _put(self, placed: PlacedCapture) -> None:
        late = max(0.0, self._clock.position() - placed.position) + placed.age
        self._feed.put(placed.capture, late)


def _and(first: PlacedCapture, rest: Iterator[PlacedCapture]) -> Iterator[PlacedCapture]:
    yield first
    yield from rest


class PlaybackControls:
    """Controls a thread that plays a recording: pause, seek, speed, end. `clock` is the time that viewers see. Thread-safe."""

    def __init__(self, file: RecordingFile, survey: Survey, options: PlaybackOptions) -> None:
        self.survey = survey
        self._file = file
        self._options = options
        self._clock = PlaybackClock(options.position, options.speed)
        self._is_started = False
        self._shown_anew: Callable[[], None] = lambda: None
        self.clock = Clock(self._clock.monotonic, self._wall, lambda: 0.0)

    def start(self, store: Store, feed: StoreFeed, history: History) -> None:
        """Start to play."""
        playback = self._on(store, feed, history)
        self._is_started, self._shown_anew = True, store.refresh
        self._clock.run()
        threading.Thread(target=playback.run, name="playback", daemon=True).start()

    def show(self, store: Store, feed: StoreFeed, history: History) -> None:
        """Show the requested position without playing on. Raises RecordingError."""
        self._on(store, feed, history).begin()

    def close(self) -> None:
        """End the playback."""
        self._clock.close()

    def recorded(self) -> Recorded:
        """Return when and where the shown state was recorded, and how it is played."""
        shown = min(self._clock.position(), self.survey.length)
        return Recorded(self.wall_time(0.0), self.survey.hostname, self.wall_time(shown), self.how())

    def wall_time(self, position: float) -> float:
        """Return the Unix time at which that position was recorded."""
        return self.survey.wall_times.at(position)

    def how(self) -> str:
        """Return a word for how the recording is played, empty if it simply plays."""
        speed = f"{self.speed:g} ×" if self.speed != 1.0 else ""
        state = self._clock.halted() or ("paused" if self._is_started and not self._clock.runs else "")
        goal = self._clock.goal()
        way = "" if goal is None else f"on its way to {human.utc(self.wall_time(goal))}"
        return ", ".join(filter(None, (speed, state, way)))

    @property
    def position(self) -> float:
        """Return the current or requested position in seconds from the beginning."""
        return min(self._clock.heading(), self.survey.length)

    @property
    def speed(self) -> float:
        """Return how many seconds of the recording pass in one second."""
        return self._clock.speed

    def pause(self) -> None:
        """Pause."""
        self._clock.stop()
        self._shown_anew()

    def go_on(self) -> None:
        """Continue to play, after the end from the beginning."""
        if self._clock.halted() == _ENDED:
            self.seek(0.0)
        self._clock.run()
        self._shown_anew()

    def toggle(self) -> None:
        """Pause, or continue; after the end from the beginning."""
        if self._clock.runs and self._clock.halted() != _ENDED:
            self.pause()
        else:
            self.go_on()

    def seek(self, position: float) -> None:
        """Seek to that position, at most to the end. A paused playback stays paused."""
        self._clock.want(min(max(0.0, position), self.survey.length))
        self._shown_anew()

    def set_speed(self, speed: float) -> None:
        """Play this many times as fast from now on."""
        self._clock.set_speed(speed)
        self._shown_anew()

    def _on(self, store: Store, feed: StoreFeed, history: History) -> Playback:
        return Playback(self._file, self.survey.length, self._clock, store, feed, history, loops=self._options.loops)

    def _wall(self) -> float:
        if self._options.keeps_times:
            return self.wall_time(self._clock.position())
        return time.time() - self._clock.behind
