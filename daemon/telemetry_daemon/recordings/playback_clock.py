"""The time of a recording that is played: it runs at a speed, stands still, and goes elsewhere."""

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
        # Who is shown this must not see time go back: where the recording goes back, this grows.
        self._offset = clock()
        self._limit = math.inf
        self.is_over = False
        # Why it stays where it is.
        self._halt = ""
        # By how much it is behind the place that it is on its way to.
        self.behind = 0.0

    @property
    def speed(self) -> float:
        """How many seconds of the recording pass in one."""
        return self._speed

    @property
    def runs(self) -> bool:
        """Whether it does."""
        return self._runs

    def place(self) -> float:
        """The seconds from the beginning of the recording."""
        with self._changed:
            return self._place()

    def monotonic(self) -> float:
        """The same, by a clock that never goes back."""
        with self._changed:
            return self._offset + self._place()

    def run(self) -> None:
        """Go on."""
        self._change(runs=True, speed=self._speed)

    def stop(self) -> None:
        """Stand still."""
        self._change(runs=False, speed=self._speed)

    def set_speed(self, speed: float) -> None:
        """Run so many times as fast, once it runs."""
        self._change(runs=self._runs, speed=speed)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Meanwhile it is only put to places."""
        with self._changed:
            self._anchor_at(self._place())
            self._is_held, self._limit = True, math.inf
        try:
            yield
        finally:
            with self._changed:
                self._anchor_at(self._anchor)
                self._is_held, self._goal = False, None
                self.behind = 0.0

    def set_out(self) -> float:
        """The place that is wanted, else the beginning; it is on its way there until it is held no more."""
        with self._changed:
            self._goal, self._wanted, self._halt = self._wanted or 0.0, None, ""
            return self._goal

    def put(self, place: float, goal: float) -> None:
        """Be at that place at once, on the way to the goal."""
        with self._changed:
            self._offset += max(0.0, self._place() - place)
            self._anchor_at(place)
            self.behind = goal - place

    def allow(self, limit: float) -> None:
        """Run as far as this: what is shown there is not ready yet, and nothing must grow old meanwhile."""
        with self._changed:
            here = self._place()
            if here >= min(self._limit, limit):  # it had to wait, which it does not make up for
                self._anchor_at(here)
            self._limit = limit

    def want(self, place: float) -> None:
        """Request to seek to this position."""
        with self._changed:
            self._wanted = place
            self._changed.notify_all()

    def goal(self) -> float | None:
        """The place that it is to be at and is not yet, None if it is there."""
        with self._changed:
            return self._goal if self._wanted is None else self._wanted

    def heading(self) -> float:
        """The place that it is to be at, whether it is there or on its way."""
        with self._changed:
            goal = self.goal()
            return self._place() if goal is None else goal

    def is_elsewhere(self) -> bool:
        """Return whether another position is requested, or the replay is over."""
        return self.is_over or self._wanted is not None

    def close(self) -> None:
        """End the replay."""
        with self._changed:
            self.is_over = True
            self._changed.notify_all()

    def wait(self, place: float) -> None:
        """Wait for this position, or for a request to seek."""
        with self._changed:
            while (left := place - self._place()) > 0 and not self.is_elsewhere():
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
        """Why it stays where it is; empty if it does not."""
        return "" if self.is_elsewhere() else self._halt

    def _change(self, *, runs: bool, speed: float) -> None:
        with self._changed:
            self._anchor_at(self._place())
            self._runs, self._speed = runs, speed
            self._changed.notify_all()

    def _place(self) -> float:
        is_moving = self._runs and not self._is_held
        passed = (self._clock() - self._anchored) * self._speed if is_moving else 0.0
        return min(self._anchor + passed, max(self._anchor, self._limit))

    def _anchor_at(self, place: float) -> None:
        self._anchor, self._anchored = place, self._clock()


def speed(text: str) -> float:
    """The number that a text names. Raises ValueError if it is none, or too slow or fast."""
    try:
        times = float(text.strip().rstrip("x×"))
    except ValueError:  # it is refused as 0 is
        times = 0.0
    if not SLOWEST <= times <= FASTEST:
        raise ValueError(f"'{text}' is no speed; write a number from {SLOWEST:g} to {FASTEST:g}")
    return times
