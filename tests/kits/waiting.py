"""Waiting for something to come true: asked again and again, far longer than a busy machine should ever need."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# It costs only whoever waits in vain. A test that waits twice in vain meets the limit of a test.
PATIENCE_SECONDS = 120.0
# With this in its environment, `telemetry job` does not give up its work after 1.2 seconds.
PATIENT_JOB = {"PYTHONPATH": str(Path(__file__).with_name("patient_job"))}


def comes_true(condition: Callable[[], Any], patience_seconds: float = PATIENCE_SECONDS) -> Any:
    """What the condition gives once it holds; what it gave last if it does not come to."""
    end = time.monotonic() + patience_seconds
    while not (given := condition()) and time.monotonic() < end:
        time.sleep(0.03)
    return given


def until(condition: Callable[[], Any], what: str, patience_seconds: float = PATIENCE_SECONDS) -> Any:
    """What the condition gives once it holds; a failure that names `what` if it does not come to."""
    given = comes_true(condition, patience_seconds)
    assert given, f"did not come about: {what}"
    return given
