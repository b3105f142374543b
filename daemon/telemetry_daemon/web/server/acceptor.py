"""Accepting connections on one listener: a few in each round of the loop; none is lost when it stops."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Awaitable, Callable

from telemetry_daemon.web.seldom_logger import SeldomLogger
from telemetry_daemon.web.server.listeners import BACKLOG, Listener

CLIENTS_IN_A_ROUND = 16  # each delays those already connected by about a tenth of a millisecond
# After a round that left some waiting, the next takes twice as many: among thousands of attackers, who make the rounds
# long, a scraper would wait for seconds.
MOST_CLIENTS_IN_A_ROUND = 128
PAUSE_AFTER_FAILURE_SECONDS = 0.1

_OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_NO_LISTENER = frozenset({errno.EBADF, errno.EINVAL, errno.ENOTSOCK, errno.EOPNOTSUPP})

logger = logging.getLogger(__name__)


class Acceptor:
    """Hands each client of a listener to `welcome`, and calls `make_room` when there are no descriptors left.

    Not `loop.sock_accept`: cancelling it may lose a client that it has just accepted.
    """

    def __init__(
        self,
        listener: Listener,
        welcome: Callable[[socket.socket], Awaitable[None]],
        make_room: Callable[[], object],
        most_in_a_round: int = CLIENTS_IN_A_ROUND,
    ) -> None:
        self.listener = listener
        self._welcome = welcome
        self._make_room = make_room
        self._log = SeldomLogger(logger)
        self._wake = asyncio.Event()
        self._stopping = False
        self._most_in_any_round = most_in_a_round
        self._most_in_this_round = CLIENTS_IN_A_ROUND
        self.task = asyncio.get_running_loop().create_task(self._run(), name=f"accept {listener.text}")

    async def stop(self) -> None:
        """Accept no more; clients that were accepted before are welcomed first."""
        self._stopping = True
        self._wake.set()
        await asyncio.wait([self.task])

    async def empty_backlog(self, worth_serving: Callable[[socket.socket], bool]) -> None:
        """After `stop`: welcome the clients that have already connected and are worth it, hang up on the others."""
        with contextlib.suppress(OSError):  # what cannot be accepted now is lost with the listener
            for _ in range(BACKLOG):
                client = self._accept()
                if client is None:
                    return
                if worth_serving(client):
                    await self._welcome(client)
                else:
                    client.close()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._stopping:
            loop.add_reader(self.listener.socket, self._wake.set)
            try:
                await self._accept_until_an_error()
            finally:
                loop.remove_reader(self.listener.socket)
            if not self._stopping:
                await asyncio.sleep(PAUSE_AFTER_FAILURE_SECONDS)

    async def _accept_until_an_error(self) -> None:
        try:
            while not self._stopping:
                await self._wake.wait()
                self._wake.clear()
                if not self._stopping:
                    await asyncio.gather(*map(self._welcome, self._accept_some()))
        except OSError as error:
            # Other errors come from the client or the network, and pass.
            if error.errno in _NO_LISTENER:
                raise
            if error.errno in _OUT_OF_DESCRIPTORS:
                self._make_room()
                self._log.warning("cannot accept a connection: %s; raise LimitNOFILE", error.strerror)

    def _accept_some(self) -> list[socket.socket]:
        clients: list[socket.socket] = []
        try:
            while len(clients) < self._most_in_this_round and (client := self._accept()) is not None:
                clients.append(client)
        except OSError:
            if not clients:
                raise
        some_wait = len(clients) == self._most_in_this_round
        self._most_in_this_round = min(self._most_in_any_round, 2 * len(clients)) if some_wait else CLIENTS_IN_A_ROUND
        return clients

    def _accept(self) -> socket.socket | None:
        try:
            return self.listener.socket.accept()[0]
        except BlockingIOError:  # the client went before it was accepted
            return None
