"""The folder of job files, watched: a job is read within a second of its hook, also if the hook cannot reach the daemon."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

LOOK_SECONDS = 1.0
_SCHEDULERS = ("slurm", "pbs", "flux")
# Two changes within one tick of the kernel's clock leave the same time.
_TICK_NANOSECONDS = 1_000_000_000


class JobFolder:
    """Has the schedulers' sources read when a file in the folder was written, replaced or removed."""

    def __init__(self, path: str, read: Callable[[str], object]) -> None:
        self._path = Path(path)
        self._read = read
        self._changed = 0
        self._looked = 0

    def look(self) -> None:
        """Look once; costs one call of the kernel unless something has changed."""
        now = time.time_ns()
        try:
            changed = self._path.stat().st_mtime_ns
        except OSError:  # no hook has called yet, or the service may not enter: the sources report that
            return
        is_settled = not 0 <= self._looked - changed <= _TICK_NANOSECONDS
        if changed != self._changed or not is_settled:
            self._changed, self._looked = changed, now
            for scheduler in _SCHEDULERS:
                self._read(scheduler)
