"""Log lines that any client can cause, at most one a minute."""

from __future__ import annotations

import logging
import time

INTERVAL_SECONDS = 60.0


class SeldomLogger:
    """Passes on at most one message in an interval, and says how many it left out since."""

    def __init__(self, logger: logging.Logger, interval_seconds: float = INTERVAL_SECONDS) -> None:
        self._logger = logger
        self._interval = interval_seconds
        self._quiet_until = 0.0
        self._left_out = 0

    def warning(self, message: str, *arguments: object) -> None:
        """Log a warning, unless one was logged a moment ago."""
        now = time.monotonic()
        if now < self._quiet_until:
            self._left_out += 1
            return
        self._quiet_until = now + self._interval
        if self._left_out:
            message += " (and %d more since the last such line)"
            arguments = (*arguments, self._left_out)
        self._left_out = 0
        self._logger.warning(message, *arguments)
