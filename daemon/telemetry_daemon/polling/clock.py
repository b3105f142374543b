"""A thread that detects when the wall clock is set."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

TICK_SECONDS = 0.5
TOLERANCE_SECONDS = 1.0

_logger = logging.getLogger(__name__)


class ClockGuard:
    """Calls `on_step` with the change in seconds after the wall clock was set."""

    def __init__(
        self,
        on_step: Callable[[float], None],
        *,
        on_tick: Callable[[], None] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._on_step = on_step
        self._on_tick = on_tick
        self._monotonic = monotonic
        self._wall = wall
        self._offset = wall() - monotonic()
        self._is_stopping = False
        self._thread: threading.Thread | None = None
        self.ticks = 0

    def start(self) -> None:
        """Start the thread. The thread does not keep the process alive."""
        self._thread = threading.Thread(target=self._run, name="clock-guard", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread at its next tick."""
        self._is_stopping = True

    def join(self, timeout_seconds: float) -> bool:
        """Wait until the thread has stopped, and return False after the timeout."""
        if self._thread is None:
            return True
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def tick(self) -> None:
        """Compare the clocks once. Call `on_step` if the wall clock was set. Then call `on_tick`."""
        self.ticks += 1
        offset = self._wall() - self._monotonic()
        step = offset - self._offset
        if abs(step) > TOLERANCE_SECONDS:
            self._on_step(step)
            self._offset = offset  # updated after the call, so that a failed call is repeated
            _logger.warning("the wall clock was set; polls continue on the monotonic clock", extra={"seconds": step})
        if self._on_tick is not None:
            self._on_tick()

    def _run(self) -> None:
        # Before Python 3.11, setting the clock back can block Event.wait, so this thread calls `sleep`.
        has_failed = False
        while not self._is_stopping:
            try:
                self.tick()
                has_failed = False
            except Exception:  # an uncaught exception would stop the thread
                if not has_failed:
                    _logger.exception("the check of the clock failed; it will be repeated")
                has_failed = True
            time.sleep(TICK_SECONDS)  # there is no event for a suspended machine
