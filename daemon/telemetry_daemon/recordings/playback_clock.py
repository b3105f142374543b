"""The clock of a replay, which can pause, seek and change its speed."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator

SLOWEST, FASTEST = 0.1, 100.0


class PlaybackClock:
    """The clock of a replay, which is stopped until `run` is called. Thread-safe."""

    def __init__(self, position: float = 0.0, speed: float = 1.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._condition = threading.Condition()
        self._requested_seek: float | None = position
        self._target: float | None = None
        self._speed = speed
        self._is_running = self._is_held = False
        self._anchor, self._anchor_time = 0.0, clock()
        # `monotonic` must not decrease, so a seek backwards increases this offset.
        self._offset = clock()
        self._limit = math.inf
        self.is_over = False
        self._halt_reason = ""
        self.seconds_to_target = 0.0

    @property
    def speed(self) -> float:
        """Return how many recorded seconds are played per second."""
        return self._speed

    @property
    def is_running(self) -> bool:
        """Return whether the clock is not paused."""
        return self._is_running

    def position(self) -> float:
        """Return the position in seconds from the beginning of the recording."""
        with self._condition:
            return self._position()

    def monotonic(self) -> float:
        """Return a time that never decreases, even after a seek backwards."""
        with self._condition:
            return self._offset + self._position()

    def run(self) -> None:
        """Start the clock, or continue after a pause."""
        self._set_motion(is_running=True, speed=self._speed)

    def stop(self) -> None:
        """Pause the clock."""
        self._set_motion(is_running=False, speed=self._speed)

    def set_speed(self, speed: float) -> None:
        """Set how many recorded seconds are played per second."""
        self._set_motion(is_running=self._is_running, speed=speed)

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Stop the clock during the `with` block."""
        with self._condition:
            self._anchor_at(self._position())
            self._is_held, self._limit = True, math.inf
        try:
            yield
        finally:
            with self._condition:
                self._anchor_at(self._anchor)
                self._is_held, self._target = False, None
                self.seconds_to_target = 0.0

    def start_seek(self) -> float:
        """Begin the requested seek, and return its target."""
        with self._condition:
            self._target, self._requested_seek, self._halt_reason = self._requested_seek or 0.0, None, ""
            return self._target

    def advance_seek(self, position: float, target: float) -> None:
        """Move the clock to `position`, during a seek to `target`."""
        with self._condition:
            self._offset += max(0.0, self._position() - position)
            self._anchor_at(position)
            self.seconds_to_target = target - position

    def set_limit(self, limit: float) -> None:
        """Stop the clock at this position."""
        with self._condition:
            current = self._position()
            if current >= min(self._limit, limit):  # the clock does not catch up after a wait at the limit
                self._anchor_at(current)
            self._limit = limit  # keeps readings from expiring before the next capture is read

    def request_seek(self, position: float) -> None:
        """Request a seek to this position, and interrupt all waits."""
        with self._condition:
            self._requested_seek = position
            self._condition.notify_all()

    def target(self) -> float | None:
        """Return the position of a requested or running seek, or None if there is no seek."""
        with self._condition:
            return self._target if self._requested_seek is None else self._requested_seek

    def requested_position(self) -> float:
        """Return the position of a requested or running seek, or else the current position."""
        with self._condition:
            target = self.target()
            return self._position() if target is None else target

    def is_interrupted(self) -> bool:
        """Return whether a seek is requested, or the replay has ended."""
        return self.is_over or self._requested_seek is not None

    def close(self) -> None:
        """End the replay, and interrupt all waits."""
        with self._condition:
            self.is_over = True
            self._condition.notify_all()

    def wait(self, position: float) -> None:
        """Wait until the clock reaches this position or is interrupted."""
        with self._condition:
            while (remaining := position - self._position()) > 0 and not self.is_interrupted():
                self._condition.wait(remaining / self._speed if self._is_running and remaining < math.inf else None)

    def restart_after(self, pause_seconds: float) -> None:
        """Wait for `pause_seconds`, and while the playback is paused. Then request a seek to the beginning."""
        with self._condition:
            end_time = self._clock() + pause_seconds
            while not self.is_interrupted():
                remaining = end_time - self._clock()
                if self._is_running and remaining <= 0:
                    self.request_seek(0.0)
                    return
                self._condition.wait(remaining if self._is_running else None)

    def halt(self, reason: str) -> None:
        """Stay at the current position until a seek is requested."""
        self._halt_reason = reason

    def halt_reason(self) -> str:
        """Return the reason for a halt, or "" if the clock is not halted."""
        return "" if self.is_interrupted() else self._halt_reason

    def _set_motion(self, *, is_running: bool, speed: float) -> None:
        with self._condition:
            self._anchor_at(self._position())
            self._is_running, self._speed = is_running, speed
            self._condition.notify_all()

    def _position(self) -> float:
        is_moving = self._is_running and not self._is_held
        elapsed = (self._clock() - self._anchor_time) * self._speed if is_moving else 0.0
        return min(self._anchor + elapsed, max(self._anchor, self._limit))

    def _anchor_at(self, position: float) -> None:
        self._anchor, self._anchor_time = position, self._clock()


def parse_speed(text: str) -> float:
    """Return the speed in a string such as `10` or `10x`. Raise ValueError if it is invalid."""
    try:
        factor = float(text.strip().rstrip("x×"))
    except ValueError:  # rejected below, like 0
        factor = 0.0
    if not SLOWEST <= factor <= FASTEST:
        raise ValueError(f"'{text}' is not a valid speed; give a number from {SLOWEST:g} to {FASTEST:g}")
    return factor
