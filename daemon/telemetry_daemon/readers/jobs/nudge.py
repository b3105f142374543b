"""Tells the running daemon that jobs have changed, without waiting for what it says."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from telemetry_daemon.guarded.named import connected

_PATIENCE_SECONDS = 0.3


def nudge(runtime_directory: str, scheduler: str) -> None:
    """Have the daemon read the jobs of a scheduler at once; where none answers, the next one reads them anyway."""
    request = json.dumps({"verb": "jobs_changed", "source": scheduler}).encode() + b"\n"
    path = Path(runtime_directory, "control.sock")
    with suppress(OSError), connected(path, _PATIENCE_SECONDS) as connection:  # what the docstring says
        connection.sendall(request)
