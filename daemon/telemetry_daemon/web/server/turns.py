"""Limits longer callbacks to one per round of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable


class TurnQueue:
    """A queue of callbacks in which clients take turns."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[Hashable, Callable[[], None]]] = {}
        self._is_scheduled = False

    def schedule(self, client: str, connection: Hashable, callback: Callable[[], None]) -> None:
        """Queue a callback for the client's next turn."""
        self._waiting.setdefault(client, {})[connection] = callback
        self._schedule_next()

    def forget(self, client: str, connection: Hashable) -> None:
        """Drop the callback of a closed connection."""
        if client in self._waiting:
            self._waiting[client].pop(connection, None)

    def _schedule_next(self) -> None:
        if self._waiting and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._run_next)

    def _run_next(self) -> None:
        self._is_scheduled = False
        while self._waiting:
            client = next(iter(self._waiting))
            callbacks = self._waiting.pop(client)
            if callbacks:
                callback = callbacks.pop(next(iter(callbacks)))
                self._waiting[client] = callbacks
                self._schedule_next()
                callback()
                return
