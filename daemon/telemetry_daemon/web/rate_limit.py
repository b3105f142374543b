"""A token bucket: so many requests at once, and one more for each interval that passes."""

from __future__ import annotations


class TokenBucket:
    """`allow` says whether a request at that moment (monotonic seconds) is within the limit, and counts it."""

    def __init__(self, interval_seconds: float, burst: int) -> None:
        self._interval = interval_seconds
        self._burst = float(burst)
        self._tokens = float(burst)
        self._counted_at: float | None = None

    def allow(self, now: float) -> bool:
        """Take a token if there is one."""
        if self._counted_at is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._counted_at) / self._interval)
        self._counted_at = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True
