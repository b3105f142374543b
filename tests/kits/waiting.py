"""Waiting for something to come true: asked again and again, far longer than a busy machine should ever need."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

# It costs only whoever waits in vain. A test that waits twice in vain meets the limit of a test.
PATIENCE_SECONDS = 120.0


def scaled(seconds: float) -> float:
    """A limit for what takes less on a quiet machine: the longer, the more others want its processors."""
    return seconds * (1 + 2 * os.getloadavg()[0] / (os.cpu_count() or 1))


def comes_true(condition: Callable[[], Any], patience_seconds: float = PATIENCE_SECONDS) -> bool:
    """Whether the condition comes to hold."""
    end = time.monotonic() + patience_seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def until(condition: Callable[[], Any], what: str, patience_seconds: float = PATIENCE_SECONDS) -> Any:
    """What the condition gives once it is not empty; a failure that names `what` if it stays empty."""
    end = time.monotonic() + patience_seconds
    while not (given := condition()):
        assert time.monotonic() < end, f"did not come about: {what}"
        time.sleep(0.05)
    return given
