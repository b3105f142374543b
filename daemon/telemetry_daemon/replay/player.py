"""What somebody does with a recording that is played: stops it, goes elsewhere in it, plays it faster; and what it says of itself."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from telemetry_daemon.replay.performance import Performance
from telemetry_daemon.replay.places import Survey
from telemetry_daemon.replay.stage import Stage
from telemetry_daemon.replay.tape import Tape
from telemetry_daemon.replay.timeline import Timeline
from telemetry_daemon.state.history import History
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_exporters import human
from telemetry_parsers.recorded import Recorded


@dataclass(frozen=True, slots=True)
class Playing:
    """How a recording is played: from which place, how fast, whether again and again, and whether it tells the time of then or of now."""

    place: float = 0.0
    speed: float = 1.0
    loops: bool = True
    tells_then: bool = True


class Player:
    """Plays on a thread of its own; `clock` is the time that passes for who looks at it. Safe to use from any thread."""

    def __init__(self, tape: Tape, survey: Survey, playing: Playing) -> None:
        self.survey = survey
        self._tape = tape
        self._playing = playing
        self._timeline = Timeline(playing.place, playing.speed)
        self._performance: Performance | None = None
        self.clock = Clock(self._timeline.monotonic, self._wall, lambda: 0.0)

    def start(self, store: Store, stage: Stage, history: History) -> None:
        """Begin to play."""
        performance = self._performance = self._on(store, stage, history)
        self._timeline.run()
        threading.Thread(target=performance.run, name="player", daemon=True).start()

    def show(self, store: Store, stage: Stage, history: History) -> None:
        """Show the place that is wanted, and do not play on. Raises RecordingError."""
        self._on(store, stage, history).begin()

    def close(self) -> None:
        """End."""
        self._timeline.close()

    def recorded(self) -> Recorded:
        """When what is shown was recorded, where, and how it is played."""
        shown = min(self._timeline.place(), self.survey.length)
        return Recorded(self.wall_time(0.0), self.survey.hostname, self.wall_time(shown), self.how())

    def wall_time(self, place: float) -> float:
        """The Unix time at which that place was recorded."""
        return self.survey.wall_times.at(place)

    def how(self) -> str:
        """A word where it is not just played."""
        speed = f"{self.speed:g} ×" if self.speed != 1.0 else ""
        state = self._state()
        goal = self._timeline.goal()
        way = "" if goal is None else f"on its way to {human.utc(self.wall_time(goal))}"
        return ", ".join(filter(None, (speed, state, way)))

    def _state(self) -> str:
        performance = self._performance
        if performance is None:
            return ""
        state = "cannot be played on" if performance.is_broken else "ended" if performance.has_ended else ""
        return state or ("" if self._timeline.runs else "paused")

    @property
    def place(self) -> float:
        """The seconds from the beginning, of where it is or is about to be."""
        return min(self._timeline.heading(), self.survey.length)

    @property
    def speed(self) -> float:
        """How many seconds of the recording pass in one."""
        return self._timeline.speed

    def pause(self) -> None:
        """Stand still."""
        self._timeline.stop()
        self._renew()

    def go_on(self) -> None:
        """Play; after the end from the beginning."""
        if self._has_ended():
            self.seek(0.0)
        self._timeline.run()
        self._renew()

    def toggle(self) -> None:
        """Stand still, or go on; after the end from the beginning."""
        if self._timeline.runs and not self._has_ended():
            self.pause()
        else:
            self.go_on()

    def seek(self, place: float) -> None:
        """Go to that place, at most to the end; who stands still stays still there."""
        self._timeline.want(min(max(0.0, place), self.survey.length))
        self._renew()

    def set_speed(self, speed: float) -> None:
        """Play so many times as fast from now on."""
        self._timeline.set_speed(speed)
        self._renew()

    def _on(self, store: Store, stage: Stage, history: History) -> Performance:
        return Performance(
            self._tape, self.survey.length, self._timeline, store, stage, history, loops=self._playing.loops
        )

    def _has_ended(self) -> bool:
        return self._performance is not None and self._performance.has_ended

    def _renew(self) -> None:
        if self._performance is not None:
            self._performance.renew()

    def _wall(self) -> float:
        """The time of then, or that of now less what is still to be caught up with."""
        if self._playing.tells_then:
            return self.wall_time(self._timeline.place())
        return time.time() - self._timeline.behind
