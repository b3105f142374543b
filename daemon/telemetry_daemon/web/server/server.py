"""The web server: listens on the addresses, accepts at a measured pace, and knows when to stop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Sequence

from telemetry_daemon.web.access.gate import Gate, read_edition
from telemetry_daemon.web.access.hosts import HostRule
from telemetry_daemon.web.errors import WebError
from telemetry_daemon.web.messages import Handler
from telemetry_daemon.web.server.acceptor import CLIENTS_IN_A_ROUND, MOST_CLIENTS_IN_A_ROUND, Acceptor
from telemetry_daemon.web.server.connection import Connection, Deadlines, House
from telemetry_daemon.web.server.crowd import MOST_CONNECTIONS, Crowd, Standing
from telemetry_daemon.web.server.descriptors import connections_within, raise_descriptor_limit
from telemetry_daemon.web.server.listeners import Listener, covers, open_listener

TICK_SECONDS = 1.0
CLOSING_LOOKS = 100  # one second in all
SECONDS_BETWEEN_CLOSING_LOOKS = 0.01


class WebServer:
    """Serves a site on addresses such as `127.0.0.1:19400`, `:9100`, `[::1]:9100` or `unix:/path`.

    All methods belong to one event loop; `ticks` may be read from any thread, and stands still when the loop does.
    """

    def __init__(
        self,
        handler: Handler,
        listen: Sequence[str],
        config_file: str,
        deadlines: Deadlines | None = None,
        allowed_hosts: Sequence[str] = (),
    ) -> None:
        self.ticks = 0
        self._handler = handler
        self._listen = tuple(listen)
        self._config_file = config_file
        self._allowed_hosts = tuple(allowed_hosts)
        self._deadlines = deadlines or Deadlines()
        self._acceptors: dict[str, Acceptor] = {}
        self._ticking: asyncio.TimerHandle | None = None

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses that are served, with their real ports, in the order in which they were asked for."""
        return tuple(self._acceptors[text].listener.address for text in self._listen if text in self._acceptors)

    @property
    def scheme(self) -> str:
        """`https` if new connections speak TLS, else `http`."""
        return "https" if self._house.gate.encrypted else "http"

    @property
    def bcrypt_checks(self) -> int:
        """How many passwords bcrypt has checked."""
        return self._house.gate.bcrypt_checks

    async def start(self) -> None:
        """Listen on all addresses; a WebError (bad address, port taken, bad file) leaves none of them open."""
        self._listen = _distinct(self._listen)
        gate = Gate(read_edition(self._config_file))
        listeners = _open_all(self._listen)
        room = connections_within(raise_descriptor_limit(), MOST_CONNECTIONS + MOST_CLIENTS_IN_A_ROUND)
        crowd = Crowd(min(room, MOST_CONNECTIONS))
        self._most_in_a_round = max(CLIENTS_IN_A_ROUND, room - MOST_CONNECTIONS)
        self._house = House(self._handler, gate, crowd, self._deadlines)
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._accept_on(listeners)
        self._tell_hosts(self._allowed_hosts)
        self._tick()

    async def serve_forever(self) -> None:
        """Return after `close`; raise if accepting connections broke for good."""
        await asyncio.shield(self._over)

    async def reconfigure(self, listen: Sequence[str], config_file: str, allowed_hosts: Sequence[str] = ()) -> None:
        """Serve these addresses by this file to these hosts; after a WebError everything is as before.

        Addresses that stay never stop listening, and those that go are given up only once the new ones are there.
        """
        wanted = _distinct(listen)
        edition = read_edition(config_file)
        unwanted = [acceptor.listener for text, acceptor in self._acceptors.items() if text not in wanted]
        opened = _open_all([text for text in wanted if text not in self._acceptors], unwanted)
        staying = [acceptor.listener for text, acceptor in self._acceptors.items() if text in wanted]
        served = [*staying, *opened]
        # One that a new address includes (127.0.0.1:9100 in :9100) goes on: to close it could cost a connection.
        leaving = [listener.text for listener in unwanted if not covers(served, listener.socket.getsockname())]
        left = [self._acceptors.pop(text) for text in leaving]
        for acceptor in left:
            await acceptor.stop()
        self._house.gate.use(edition)
        self._listen = wanted
        self._accept_on(opened)
        self._tell_hosts(allowed_hosts)
        for acceptor in left:
            await acceptor.empty_backlog(lambda client: covers(served, client.getsockname()))
            acceptor.listener.close()
        for connection in self._house.crowd.everyone():
            if not covers(served, connection.caller.came_to):
                connection.finish()

    async def close(self) -> None:
        """Stop listening, give running answers a moment, and hang up on everybody; safe to call twice."""
        if self._ticking is None:
            return
        self._ticking.cancel()
        self._ticking = None
        for acceptor in self._acceptors.values():
            await acceptor.stop()
            acceptor.listener.close()
        await self._finish_everybody()
        await self._house.gate.close()
        if not self._over.done():
            self._over.set_result(None)

    async def _finish_everybody(self) -> None:
        crowd = self._house.crowd
        for connection in crowd.everyone():
            connection.finish()
        self._house.gate.refuse_waiting()
        for _ in range(CLOSING_LOOKS):
            if not crowd.count(Standing.ANSWERING):
                break
            await asyncio.sleep(SECONDS_BETWEEN_CLOSING_LOOKS)
        for connection in crowd.everyone():
            connection.abort()
        await asyncio.sleep(0)  # the turn in which the transports close their sockets

    def _accept_on(self, listeners: Sequence[Listener]) -> None:
        for listener in listeners:
            acceptor = Acceptor(listener, self._welcome, self._house.crowd.evict_one, self._most_in_a_round)
            acceptor.task.add_done_callback(self._accepting_ended)
            self._acceptors[listener.text] = acceptor

    def _tell_hosts(self, allowed: Sequence[str]) -> None:
        """Have the gate guard the addresses that are wanted; an old one that a new one includes is not any more."""
        wanted = [self._acceptors[text].listener.socket for text in self._listen if text in self._acceptors]
        self._house.gate.host_rule = HostRule(allowed, [listening.getsockname() for listening in wanted])

    def _accepting_ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._over.done():
            self._over.set_exception(error)

    async def _welcome(self, client: socket.socket) -> None:
        """Give a client its connection, and all others their turn: the call waits for the loop's next round."""
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(lambda: Connection(self._house), client)
        except OSError:  # the client is gone already
            client.close()

    def _tick(self) -> None:
        self._ticking = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)
        if not any(acceptor.task.done() for acceptor in self._acceptors.values()):
            self.ticks += 1


def _distinct(listen: Sequence[str]) -> tuple[str, ...]:
    if not listen:
        raise WebError("no listen address is given; write one with --web.listen-address, such as :19400")
    return tuple(dict.fromkeys(listen))


def _open_all(texts: Sequence[str], beside: Sequence[Listener] = ()) -> list[Listener]:
    """Listeners on all addresses, or a WebError and none; they may overlap those that they stand beside."""
    with contextlib.ExitStack() as undo:
        listeners: list[Listener] = []
        for text in texts:
            listeners.append(open_listener(text, beside))
            undo.callback(listeners[-1].close)
        undo.pop_all()
        return listeners
