"""Which sources the operator has released, and for how long."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable


class Releases:
    """Safe to use from any thread; times are monotonic seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._until: dict[str, float] = {}

    def release(self, source: str, seconds: float = math.inf) -> None:
        """Leave a source alone for that many seconds, counted from now even if it is released already."""
        with self._lock:
            self._until[source] = self._monotonic() + seconds

    def resume(self, source: str) -> bool:
        """End the release; False when there was none."""
        with self._lock:
            return self._until.pop(source, -math.inf) > self._monotonic()

    def text_of(self, source: str) -> str:
        """Why a released source is not polled; empty if it is not released."""
        with self._lock:
            left = self._until.get(source, -math.inf) - self._monotonic()
            if left <= 0:
                self._until.pop(source, None)
                return ""
        if left == math.inf:
            return f"released by the operator until 'telemetry resume {source}'"
        return f"released by the operator for {math.ceil(left)} s more, or until 'telemetry resume {source}'"
