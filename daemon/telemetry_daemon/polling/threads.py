"""The thread that the jobs of one source, or one chore, run on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from apscheduler.executors.pool import BasePoolExecutor


class OneThread(BasePoolExecutor):  # type: ignore[misc]  # APScheduler has no types
    """An executor with a single thread, which is started at once.

    A pool starts its thread with its first job. That fails, and the job with it, if a tool has used up the service's
    tasks (TasksMax=) by then.
    """

    def __init__(self) -> None:
        pool = ThreadPoolExecutor(1)
        with suppress(RuntimeError):  # if there is no room even now, the first job tries again
            pool.submit(int)
        super().__init__(pool)
