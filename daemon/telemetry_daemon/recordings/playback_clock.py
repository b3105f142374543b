"""The clock of a replay: it runs at a speed, pauses, and seeks."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator

SLOWEST, FASTEST = 0.1, 100.0


class PlaybackClock:
    """The clock of a replay, for any thread. It is stopped until `run`; `wanted` is the first position."""

    def __init__(self, wanted: float = 0.0, speed: float = 1.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._wanted: float | None = wanted
        self._goal: float | None = None
        self._speed = speed
        self._runs = self._is_held = False
        self._anchor, self._anchored = 0.0, clock()
        # Viewers must not see time go back: when the recording goes back, this offset grows.
        self._offset = clock()
        self._limit = math.inf
        self.is_over = False
        # Why the clock is halted.
        self._halt = ""
        # By how much the clock is behind the goal of a seek.
        self.behind = 0.0

    @property
    def speed(self) -> float:
        """Return how many seconds of the recording pass in one second."""
        return self._speed

    @property
    def runs(self) -> bool:
        """Return whether the clock runs."""
        return self._runs

    def position(self) -> float:
        """Return the position in seconds from the beginning of the recording."""
        with self._changed:
            return self._position()

    def monotonic(self) -> float:
        """Return a time that never goes back."""
        with self._changed:
            return self._offset + self._position()

    def run(self) -> None:
        """Run."""
        self._change(runs=True, speed=self._speed)

    def stop(self) -> None:
        """Pause."""
        self._change(runs=False, speed=self._speed)

    def set_speed(self, speed: float) -> None:
        """Set how many times as fast the recording plays."""
        self._change(runs=self._runs, speed=speed)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Until the block ends, the clock moves only by `jump_to`."""
        with self._changed:
            self._anchor_at(self._position())
            self._is_held, self._limit = True, math.inf
        try:
            yield
        finally:
            with self._changed:
                self._anchor_at(self._anchor)
                self._is_held, self._goal = False, None
                self.behind = 0.0

    def set_out(self) -> float:
        """Start to seek, and return the requested position, or the beginning."""
        with self._changed:
            self._goal, self._wanted, self._halt = self._wanted or 0.0, None, ""
            return self._goal

    def jump_to(self, position: float, goal: float) -> None:
        """Move to this position at once, and set how far the clock is behind the goal."""
        with self._changed:
            self._offset += max(0.0, self._position() - position)
            self._anchor_at(position)
            self.behind = goal - position

    def allow(self, limit: float) -> None:
        """Run at most to this position, so that nothing expires while the next state is not ready."""
        with self._changed:
            here = self._position()
            if here >= min(self._limit, limit):  # a wait is not made up for
                self._anchor_at(here)
            self._limit = limit

    def want(self, position: float) -> None:
        """Request to seek to this position."""
        with self._changed:
            self._wanted = position
            self._changed.notify_all()

    def goal(self) -> float | None:
        """Return the requested position, or None if the clock is there."""
        with self._changed:
            return self._goal if self._wanted is None else self._wanted

    def heading(self) -> float:
        """Return the requested position, reached or not."""
        with self._changed:
            goal = self.goal()
            return self._position() if goal is None else goal

    def is_elsewhere(self) -> bool:
        """Return whether another position is requested, or the replay is over."""
        return self.is_over or self._wanted is not None

    def close(self) -> None:
        """End the replay."""
        with self._changed:
            self.is_over = True
            self._changed.notify_all()

    def wait(self, position: float) -> None:
        """Wait for this position, or for a request to seek."""
        with self._changed:
            while (left := position - self._position()) > 0 and not self.is_elsewhere():
                self._changed.wait(left / self._speed if self._runs and left < math.inf else None)

    def begin_anew(self, seconds: float) -> None:
        """Restart at the beginning after these seconds of replay, unless a seek is requested."""
        with self._changed:
            until = self._clock() + seconds
            while not self.is_elsewhere():
                left = until - self._clock()
                if self._runs and left <= 0:
                    self.want(0.0)
                    return
                self._changed.wait(left if self._runs else None)

    def halt(self, why: str) -> None:
        """Stay at this position until a seek is requested."""
        self._halt = why

    def halted(self) -> str:
        """Return why the clock is halted, or an empty text."""
        return "" if self.is_elsewhere() else self._halt

    def _change(self, *, runs: bool, speed: float) -> None:
        with self._changed:
            self._anchor_at(self._position())
            self._runs, self._speed = runs, speed
            self._changed.notify_all()

    def _position(self) -> float:
        is_moving = self._runs and not self._is_held
        passed = (self._clock() - self._anchored) * self._speed if is_moving else 0.0
        return min(self._anchor + passed, max(self._anchor, self._limit))

    def _anchor_at(self, position: float) -> None:
        self._anchor, self._anchored = position, self._clock()


def speed(text: str) -> float:
    """Return the speed in this text. Raises ValueError for any other text, and for a speed that is too slow or fast."""
    try:
        times = float(text.strip().rstrip("x×"))
    except ValueError:  # refused like 0
        times = 0.0
    if not SLOWEST <= times <= FASTEST:
        raise ValueError(f"'{text}' is not a valid speed; give a number from {SLOWEST:g} to {FASTEST:g}")
    return times
