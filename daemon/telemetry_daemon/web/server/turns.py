"""Limits longer callbacks to one per round of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable


class TurnQueue:
    """A queue of callbacks, in which clients take turns: each round runs one callback of the next client."""

    def __init__(self) -> None:
        self._callbacks_by_client: dict[str, dict[Hashable, Callable[[], None]]] = {}
        self._is_scheduled = False

    def schedule(self, client: str, connection: Hashable, callback: Callable[[], None]) -> None:
        """Queue a callback for the client's next turn."""
        self._callbacks_by_client.setdefault(client, {})[connection] = callback
        self._schedule_next()

    def forget(self, client: str, connection: Hashable) -> None:
        """Drop the callback of a closed connection."""
        if client in self._callbacks_by_client:
            self._callbacks_by_client[client].pop(connection, None)

    def _schedule_next(self) -> None:
        if self._callbacks_by_client and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._run_next)

    def _run_next(self) -> None:
        self._is_scheduled = False
        while self._callbacks_by_client:
            client = next(iter(self._callbacks_by_client))
            callbacks = self._callbacks_by_client.pop(client)
            if callbacks:
                callback = callbacks.pop(next(iter(callbacks)))
                self._callbacks_by_client[client] = callbacks
                self._schedule_next()
                callback()
                return
