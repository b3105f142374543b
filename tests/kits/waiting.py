"""Wait until a condition is true, far longer than a busy machine should need."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Only a failing wait takes this long. A test with two failing waits exceeds its time limit.
PATIENCE_SECONDS = 120.0
# With this in its environment, `telemetry job` does not give up its work after 1.2 seconds.
PATIENT_JOB = {"PYTHONPATH": str(Path(__file__).with_name("patient_job"))}


def comes_true(condition: Callable[[], Any], patience_seconds: float = PATIENCE_SECONDS) -> Any:
    """Return the condition's value once it is true, or its last value if it does not become true."""
    end = time.monotonic() + patience_seconds
    while not (given := condition()) and time.monotonic() < end:
        time.sleep(0.03)
    return given


def until(condition: Callable[[], Any], what: str, patience_seconds: float = PATIENCE_SECONDS) -> Any:
    """Return the condition's value once it is true; fail with `what` in the message if it does not become true."""
    given = comes_true(condition, patience_seconds)
    assert given, f"did not come about: {what}"
    return given
