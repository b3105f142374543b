"""A thread that notices when the wall clock is set; its ticks prove to the watchdog that the process runs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

TICK_SECONDS = 0.5
TOLERANCE_SECONDS = 1.0

_logger = logging.getLogger(__name__)


class ClockGuard:
    """Compares the wall clock with the monotonic one twice a second, and calls `on_step(seconds)` after a step.

    A clock set back by an hour would otherwise stop all polls for an hour: APScheduler knows the wall clock only. Steps
    are summed up since the last call, so that many small ones count as much as a large one.
    """

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
        self._stopped = False
        self._thread: threading.Thread | None = None
        self.ticks = 0

    def start(self) -> None:
        """Start the thread; it is a daemon thread and keeps no process alive."""
        self._thread = threading.Thread(target=self._run, name="clock-guard", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Let the thread end at its next tick."""
        self._stopped = True

    def join(self, timeout_seconds: float) -> bool:
        """Wait for the thread's end; whether it came."""
        if self._thread is None:
            return True
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def tick(self) -> None:
        """Compare the clocks once."""
        self.ticks += 1
        offset = self._wall() - self._monotonic()
        step = offset - self._offset
        if abs(step) > TOLERANCE_SECONDS:
            self._on_step(step)
            self._offset = offset  # only now, so that a call that failed is made again
            _logger.warning("the wall clock was set; polls go on by the monotonic clock", extra={"seconds": step})
        if self._on_tick is not None:
            self._on_tick()

    def _run(self) -> None:
        # time.sleep and not Event.wait: before Python 3.11 a lock's timeout goes by the wall clock, so that a
        # clock set back would stop the very thread that should notice it.
        failing = False
        while not self._stopped:
            try:
                self.tick()
                failing = False
            except Exception:  # the border of the thread: without it every later step would go unnoticed
                if not failing:
                    _logger.exception("the clock guard failed and goes on trying")
                failing = True
            time.sleep(TICK_SECONDS)
