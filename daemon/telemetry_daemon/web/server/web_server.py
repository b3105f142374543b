"""The web server: it listens on the addresses, accepts clients, and closes everything at the end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from telemetry_daemon.web.access.access_control import AccessControl, load_rules
from telemetry_daemon.web.errors import WebError
from telemetry_daemon.web.messages import Handler
from telemetry_daemon.web.server.acceptor import CLIENTS_IN_A_ROUND, MOST_CLIENTS_IN_A_ROUND, Acceptor
from telemetry_daemon.web.server.connection import Connection
from telemetry_daemon.web.server.listeners import Listener, covers, open_listener
from telemetry_daemon.web.server.open_connections import (
    MOST_CONNECTIONS,
    OpenConnections,
    Phase,
    connections_within,
    raise_descriptor_limit,
)
from telemetry_daemon.web.server.shared import Deadlines, Shared

CLOSING_LOOKS = 100  # one second in all
SECONDS_BETWEEN_CLOSING_LOOKS = 0.01


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a web server is doing at one moment."""

    connections: Mapping[Phase, int]
    password_checks: int
    waiting_for_password_check: int


class WebServer:
    """Serves a site on addresses such as `127.0.0.1:9100`, `:9100`, `[::1]:9100` or `unix:/path`.

    All methods belong to one event loop.
    """

    def __init__(
        self,
        handler: Handler,
        listen: Sequence[str],
        config_file: str,
        deadlines: Deadlines | None = None,
        allowed_hosts: Sequence[str] = (),
    ) -> None:
        self._handler = handler
        self._listen = tuple(listen)
        self._config_file = config_file
        self._allowed_hosts = tuple(allowed_hosts)
        self._deadlines = deadlines or Deadlines()
        self._acceptors: dict[str, Acceptor] = {}
        self._admits: Callable[[socket.socket], bool] = lambda client: True  # noqa: ARG005  # everybody

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses that are served, with their real ports, in the order of the settings."""
        return tuple(self._acceptors[text].listener.address for text in self._listen if text in self._acceptors)

    def statistics(self) -> Statistics:
        """The numbers of this moment."""
        connections, access = self._shared.open_connections, self._shared.access
        return Statistics(
            {phase: connections.count(phase) for phase in Phase},
            access.password_checks,
            access.waiting_for_password_check,
        )

    async def start(self) -> None:
        """Listen on all addresses; a WebError (bad address, port taken, bad file) leaves none of them open."""
        self._listen = _distinct(self._listen)
        access = AccessControl(load_rules(self._config_file))
        self._serve(_open_all(self._listen), access)
        self._allow_hosts(self._allowed_hosts)

    async def start_on(self, listener: Listener, admits: Callable[[socket.socket], bool]) -> None:
        """Serve one listener that is open, without passwords, to those who are admitted."""
        self._admits = admits
        self._listen = (listener.text,)
        self._serve([listener], AccessControl(load_rules("")))

    def _serve(self, listeners: Sequence[Listener], access: AccessControl) -> None:
        room = connections_within(raise_descriptor_limit(), MOST_CONNECTIONS + MOST_CLIENTS_IN_A_ROUND)
        connections = OpenConnections(min(room, MOST_CONNECTIONS))
        self._most_in_a_round = max(CLIENTS_IN_A_ROUND, room - MOST_CONNECTIONS)
        self._shared = Shared(self._handler, access, connections, self._deadlines)
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._accept_on(listeners)

    async def serve_forever(self) -> None:
        """Return after `close`; raise if accepting connections broke for good."""
        await asyncio.shield(self._over)

    async def reconfigure(self, listen: Sequence[str], config_file: str, allowed_hosts: Sequence[str] = ()) -> None:
        """Serve these addresses by this file to these hosts; after a WebError everything is as before.

        Addresses that stay never stop listening; old ones are closed only after the new ones are open.
        """
        texts = _distinct(listen)
        rules = load_rules(config_file)
        dropped = [acceptor.listener for text, acceptor in self._acceptors.items() if text not in texts]
        opened = _open_all([text for text in texts if text not in self._acceptors], dropped)
        staying = [acceptor.listener for text, acceptor in self._acceptors.items() if text in texts]
        served = [*staying, *opened]
        # One that a new address includes (127.0.0.1:9100 in :9100) stays open: to close it could cost a connection.
        leaving = [listener.text for listener in dropped if not covers(served, listener.socket.getsockname())]
        left = [self._acceptors.pop(text) for text in leaving]
        for acceptor in left:
            await acceptor.stop()
        self._shared.access.use(rules)
        self._listen = texts
        self._accept_on(opened)
        self._allow_hosts(allowed_hosts)
        for acceptor in left:
            await acceptor.empty_backlog(lambda client: covers(served, client.getsockname()))
            acceptor.listener.close()
        for connection in self._shared.open_connections.all():
            if not covers(served, connection.caller.local_address):
                connection.finish()

    async def close(self) -> None:
        """Stop listening, give running answers a moment, and hang up on everybody; safe to call twice."""
        acceptors = list(self._acceptors.values())
        self._acceptors.clear()
        if not acceptors:
            return
        for acceptor in acceptors:
            await acceptor.stop()
            acceptor.listener.close()
        await self._finish_everybody()
        await self._shared.access.close()
        if not self._over.done():
            self._over.set_result(None)

    async def _finish_everybody(self) -> None:
        connections = self._shared.open_connections
        for connection in connections.all():
            connection.finish()
        self._shared.access.refuse_waiting()
        for _ in range(CLOSING_LOOKS):
            if not connections.count(Phase.ANSWERING):
                break
            await asyncio.sleep(SECONDS_BETWEEN_CLOSING_LOOKS)
        for connection in connections.all():
            connection.abort()
        await asyncio.sleep(0)  # the turn in which the transports close their sockets

    def _accept_on(self, listeners: Sequence[Listener]) -> None:
        for listener in listeners:
            acceptor = Acceptor(listener, self._welcome, self._shared.open_connections.evict_one, self._most_in_a_round)
            acceptor.task.add_done_callback(self._accepting_ended)
            self._acceptors[listener.text] = acceptor

    def _allow_hosts(self, names: Sequence[str]) -> None:
        """Check host names by the addresses of the settings, not by an old one that a new one includes."""
        listening = [self._acceptors[text].listener.socket for text in self._listen if text in self._acceptors]
        self._shared.access.allow_hosts(names, [each.getsockname() for each in listening])

    def _accepting_ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._over.done():
            self._over.set_exception(error)

    async def _welcome(self, client: socket.socket) -> None:
        """Give a client its connection. The call waits for the loop's next round, so others get their turn."""
        if not self._admits(client):
            client.close()
            return
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(lambda: Connection(self._shared), client)
        except OSError:  # the client is gone already
            client.close()


def _distinct(listen: Sequence[str]) -> tuple[str, ...]:
    if not listen:
        raise WebError("no listen address is given; write one with --web.listen-address, such as :PORT")
    return tuple(dict.fromkeys(listen))


def _open_all(texts: Sequence[str], beside: Sequence[Listener] = ()) -> list[Listener]:
    """Listeners on all addresses, or a WebError and none; they may share the ports of those in `beside`."""
    with contextlib.ExitStack() as undo:
        listeners: list[Listener] = []
        for text in texts:
            listeners.append(open_listener(text, beside))
            undo.callback(listeners[-1].close)
        undo.pop_all()
        return listeners
