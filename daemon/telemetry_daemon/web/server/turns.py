"""Runs longer work once per round of the event loop, so that scrapes are answered in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable


class TurnQueue:
    """A queue of waiting work with at most one function per connection. Clients take turns."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[Hashable, Callable[[], None]]] = {}
        self._is_scheduled = False

    def schedule(self, client: str, connection: Hashable, work: Callable[[], None]) -> None:
        """Run this function when it is the client's turn."""
        self._waiting.setdefault(client, {})[connection] = work
        self._schedule()

    def forget(self, client: str, connection: Hashable) -> None:
        """Drop the work of a closed connection."""
        if client in self._waiting:
            self._waiting[client].pop(connection, None)

    def _schedule(self) -> None:
        if self._waiting and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._run_next)

    def _run_next(self) -> None:
        self._is_scheduled = False
        while self._waiting:
            client = next(iter(self._waiting))
            work_by_connection = self._waiting.pop(client)
            if work_by_connection:
                work = work_by_connection.pop(next(iter(work_by_connection)))
                self._waiting[client] = work_by_connection
                self._schedule()
                work()
                return
