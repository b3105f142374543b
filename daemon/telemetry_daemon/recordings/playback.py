"""Plays a recording from any position."""

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
from telemetry_daemon.recordings.survey import PlacedCapture, PollKey, Survey, placed_captures
from telemetry_daemon.state.history import History
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_exporters import human
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.past import SLOT_SECONDS, SLOTS
from telemetry_parsers.replay_info import ReplayInfo

log = logging.getLogger(__name__)

# A replay that starts in the middle also reads the half hour before, which fills the history.
LOOK_BACK_SECONDS = SLOTS * SLOT_SECONDS
# At any speed, a replay pauses this long at the end before it starts again.
PAUSE_SECONDS = 2.0
_ENDED, _BROKEN = "ended", "playback cannot continue"


@dataclass(frozen=True, slots=True)
class PlaybackOptions:
    """The options of a replay. If `keeps_times` is set, readings keep their recorded times."""

    position: float = 0.0
    speed: float = 1.0
    loops: bool = True
    keeps_times: bool = True


class Playback:
    """Passes each capture of a recording to a store when the clock reaches its position."""

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
            self._seek_and_play()

    def seek_and_rebuild(self) -> Iterator[PlacedCapture]:
        """Seek to the requested position, and return the captures after this position."""
        with self._store.frozen_view(), self._clock.hold():
            remaining = self._rebuild(self._clock.start_seek())
            while self._clock.is_interrupted() and not self._clock.is_over:
                remaining = self._rebuild(self._clock.start_seek())
        self._store.refresh_replay_info()
        return remaining

    def _seek_and_play(self) -> None:
        try:
            self._play(self.seek_and_rebuild())
        except RecordingError as error:  # the file was changed or removed since the survey
            log.error("the recording can no longer be played", extra={"error": error})
            self._clock.set_limit(self._clock.position())  # keeps the shown readings from expiring
            self._halt(_BROKEN)

    def _rebuild(self, target: float) -> Iterator[PlacedCapture]:
        """Fill the store with the state at `target`, and return the later captures."""
        start = max(0.0, target - LOOK_BACK_SECONDS)
        newest, remaining = self._read_until(start)
        if self._clock.is_interrupted():
            return remaining
        self._slot = int(start // SLOT_SECONDS)
        self._clock.advance_seek(start, target)
        self._store.reset()
        self._feed.add_sources()
        for placed in newest:
            self._store_capture(placed)
        remaining = self._store_until(remaining, target)
        if not self._clock.is_interrupted():
            self._advance_to(target, target)
        return remaining

    def _read_until(self, position: float) -> tuple[list[PlacedCapture], Iterator[PlacedCapture]]:
        """Return each poll's newest capture up to this position, and the later captures."""
        newest: dict[PollKey, PlacedCapture] = {}
        # Captures that were appended to the file since the survey are not played.
        captures = itertools.takewhile(lambda placed: placed.position <= self._length, placed_captures(self._file))
        for placed in captures:
            if self._clock.is_interrupted():
                return [], iter(())
            if placed.position > position:
                return list(newest.values()), _prepend(placed, captures)
            newest[placed.key] = placed
        return list(newest.values()), iter(())

    def _store_until(self, captures: Iterator[PlacedCapture], target: float) -> Iterator[PlacedCapture]:
        for placed in captures:
            if placed.position > target or self._clock.is_interrupted():
                return _prepend(placed, captures)
            self._advance_to(placed.position, target)
            self._store_capture(placed)
        return iter(())

    def _play(self, captures: Iterator[PlacedCapture]) -> None:
        for placed in captures:
            self._clock.set_limit(placed.position)
            if not self._wait_for(placed.position):
                return
            self._store_capture(placed)
        if not self._wait_for(self._length):
            return
        self._clock.set_limit(self._length)
        if self._loops:
            self._clock.restart_after(PAUSE_SECONDS)
        else:
            self._halt(_ENDED)

    def _wait_for(self, position: float) -> bool:
        """Wait for a position. Return False if the wait was interrupted."""
        while self._clock.position() < position and not self._clock.is_interrupted():
            self._clock.wait(min(position, self._slot_end()))
            self._update_history()
        return not self._clock.is_interrupted()

    def _halt(self, reason: str) -> None:
        self._clock.halt(reason)
        self._store.refresh_replay_info()
        self._clock.wait(math.inf)

    def _advance_to(self, position: float, target: float) -> None:
        while self._slot_end() <= position:
            self._clock.advance_seek(max(self._slot_end(), self._clock.position()), target)
            self._update_history()
        self._clock.advance_seek(max(position, self._clock.position()), target)

    def _slot_end(self) -> float:
        return (self._slot + 1) * SLOT_SECONDS

    def _update_history(self) -> None:
        self._slot = int(self._clock.position() // SLOT_SECONDS)
        self._history.end_slots(self._store.current_snapshot)

    def _store_capture(self, placed: PlacedCapture) -> None:
        late_seconds = max(0.0, self._clock.position() - placed.position) + placed.age
        self._feed.put(placed.capture, late_seconds)


def _prepend(first: PlacedCapture, others: Iterator[PlacedCapture]) -> Iterator[PlacedCapture]:
    yield first
    yield from others


class PlaybackControls:
    """Controls a replay, which runs in its own thread. Thread-safe."""

    def __init__(self, file: RecordingFile, survey: Survey, options: PlaybackOptions) -> None:
        self.survey = survey
        self._file = file
        self._options = options
        self._playback_clock = PlaybackClock(options.position, options.speed)
        self._is_started = False
        self._on_change: Callable[[], None] = lambda: None
        self.clock = Clock(self._playback_clock.monotonic, self._current_wall_time, lambda: 0.0)

    def start(self, store: Store, feed: StoreFeed, history: History) -> None:
        """Start playback in a new thread."""
        playback = self._create_playback(store, feed, history)
        self._is_started, self._on_change = True, store.refresh_replay_info
        self._playback_clock.run()
        threading.Thread(target=playback.run, name="playback", daemon=True).start()

    def fill(self, store: Store, feed: StoreFeed, history: History) -> None:
        """Fill the store with the state at the requested position. Raise RecordingError if the file is unusable."""
        self._create_playback(store, feed, history).seek_and_rebuild()

    def close(self) -> None:
        """End the playback."""
        self._playback_clock.close()

    def replay_info(self) -> ReplayInfo:
        """Return the replay's state, its host, and the recorded times of its beginning and its position."""
        position = min(self._playback_clock.position(), self.survey.length)
        return ReplayInfo(self.wall_time(0.0), self.survey.hostname, self.wall_time(position), self.state_text())

    def wall_time(self, position: float) -> float:
        """Return the Unix time at which a position was recorded."""
        return self.survey.wall_times.at(position)

    def state_text(self) -> str:
        """Return the state, such as `10 ×, paused`, or "" at normal speed."""
        speed_text = f"{self.speed:g} ×" if self.speed != 1.0 else ""
        state = self._playback_clock.halt_reason() or (
            "paused" if self._is_started and not self._playback_clock.is_running else ""
        )
        target = self._playback_clock.target()
        seek_text = "" if target is None else f"seeking to {human.utc(self.wall_time(target))}"
        return ", ".join(filter(None, (speed_text, state, seek_text)))

    @property
    def position(self) -> float:
        """Return the position in seconds. During a seek, this is the target."""
        return min(self._playback_clock.requested_position(), self.survey.length)

    @property
    def speed(self) -> float:
        """Return how many recorded seconds are played per second."""
        return self._playback_clock.speed

    def pause(self) -> None:
        """Pause the replay."""
        self._playback_clock.stop()
        self._on_change()

    def resume(self) -> None:
        """Continue to play, from the beginning if the recording has ended."""
        if self._playback_clock.halt_reason() == _ENDED:
            self.seek(0.0)
        self._playback_clock.run()
        self._on_change()

    def toggle(self) -> None:
        """Pause the replay, or resume it if it is paused or has ended."""
        if self._playback_clock.is_running and self._playback_clock.halt_reason() != _ENDED:
            self.pause()
        else:
            self.resume()

    def seek(self, position: float) -> None:
        """Seek to a position in the recording, in seconds."""
        self._playback_clock.request_seek(min(max(0.0, position), self.survey.length))
        self._on_change()

    def set_speed(self, speed: float) -> None:
        """Set how many recorded seconds are played per second."""
        self._playback_clock.set_speed(speed)
        self._on_change()

    def _create_playback(self, store: Store, feed: StoreFeed, history: History) -> Playback:
        return Playback(
            self._file, self.survey.length, self._playback_clock, store, feed, history, loops=self._options.loops
        )

    def _current_wall_time(self) -> float:
        if self._options.keeps_times:
            return self.wall_time(self._playback_clock.position())
        return time.time() - self._playback_clock.seconds_to_target
