"""The web server: it listens on the addresses, accepts clients, and closes everything at the end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence

from telemetry_daemon.web.access.access_control import AccessControl, load_rules
from telemetry_daemon.web.clients import RateLimits, SeldomLogger
from telemetry_daemon.web.messages import Handler
from telemetry_daemon.web.server.connection import Connection
from telemetry_daemon.web.server.listeners import BACKLOG, Listener, covers, open_listener
from telemetry_daemon.web.server.open_connections import (
    MOST_CONNECTIONS,
    Deadlines,
    OpenConnections,
    Phase,
    Shared,
    connections_within,
    raise_descriptor_limit,
)
from telemetry_parsers.dataclass import dataclass

CLOSING_LOOKS = 100  # one second in all
SECONDS_BETWEEN_CLOSING_LOOKS = 0.01
CLIENTS_IN_A_ROUND = 16  # each delays those already connected by about a tenth of a millisecond
# After a round that left clients waiting, the next accepts twice as many: among thousands of attackers, which make rounds
# long, a scraper would wait for seconds.
MOST_CLIENTS_IN_A_ROUND = 128
PAUSE_AFTER_FAILURE_SECONDS = 0.1

_OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_NO_LISTENER = frozenset({errno.EBADF, errno.EINVAL, errno.ENOTSOCK, errno.EOPNOTSUPP})

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Statistics:
    """The current activity of a web server."""

    connections: Mapping[Phase, int]
    password_checks: int
    waiting_for_password_check: int


class WebServer:
    """Serves a site on addresses such as `:9100`, `[::1]:9100` or `unix:/path`. All methods belong to one event loop."""

    def __init__(
        self,
        handler: Handler,
        listen: Sequence[str],
        config_file: str,
        deadlines: Deadlines | None = None,
        allowed_hosts: Sequence[str] = (),
        limits: RateLimits | None = None,
    ) -> None:
        self._handler = handler
        self._limits = limits
        self._listen = tuple(dict.fromkeys(listen))
        self._config_file = config_file
        self._allowed_hosts = tuple(allowed_hosts)
        self._deadlines = deadlines or Deadlines()
        self._acceptors: dict[str, _Acceptor] = {}
        self._admits: Callable[[socket.socket], bool] = lambda client: True  # noqa: ARG005  # all clients

    @property
    def addresses(self) -> tuple[str, ...]:
        """Return the served addresses with their real ports, in the order of the settings."""
        return tuple(self._acceptors[text].listener.address for text in self._listen if text in self._acceptors)

    def statistics(self) -> Statistics:
        """Return the current numbers."""
        connections, access = self._shared.open_connections, self._shared.access
        return Statistics(
            {phase: connections.count(phase) for phase in Phase},
            access.password_checks,
            access.waiting_for_password_check,
        )

    async def start(self) -> None:
        """Listen on all addresses. On WebError (bad address, used port, bad file), no address is open."""
        access = AccessControl(load_rules(self._config_file), self._limits)
        self._serve(_open_all(self._listen), access)
        self._allow_hosts(self._allowed_hosts)

    async def start_on(self, listener: Listener, admits: Callable[[socket.socket], bool]) -> None:
        """Serve an open listener without passwords, to the clients that `admits` accepts."""
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
        """Return after `close`; raise if accepting connections failed for good."""
        await asyncio.shield(self._over)

    async def reconfigure(self, listen: Sequence[str], config_file: str, allowed_hosts: Sequence[str] = ()) -> None:
        """Serve these addresses with this file to these hosts, without a gap for kept addresses. On WebError, nothing changes."""
        texts = tuple(dict.fromkeys(listen))
        rules = load_rules(config_file)
        dropped = [acceptor.listener for text, acceptor in self._acceptors.items() if text not in texts]
        opened = _open_all([text for text in texts if text not in self._acceptors], dropped)
        staying = [acceptor.listener for text, acceptor in self._acceptors.items() if text in texts]
        served = [*staying, *opened]
        # A listener that a new address includes (127.0.0.1:9100 in :9100) stays open: closing it could lose a connection.
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
        """Stop listening, give running responses a moment, and disconnect all clients. A second call does nothing."""
        acceptors = list(self._acceptors.values())
        self._acceptors.clear()
        if not acceptors:
            return
        for acceptor in acceptors:
            await acceptor.stop()
            acceptor.listener.close()
        await self._finish_all()
        await self._shared.access.close()
        if not self._over.done():
            self._over.set_result(None)

    async def _finish_all(self) -> None:
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
            acceptor = _Acceptor(
                listener, self._welcome, self._shared.open_connections.evict_one, self._most_in_a_round
            )
            acceptor.task.add_done_callback(self._accepting_ended)
            self._acceptors[listener.text] = acceptor

    def _allow_hosts(self, names: Sequence[str]) -> None:
        """Check host names against the addresses of the settings, not against an old address that a new one includes."""
        listening = [self._acceptors[text].listener.socket for text in self._listen if text in self._acceptors]
        self._shared.access.allow_hosts(names, [listener.getsockname() for listener in listening])

    def _accepting_ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._over.done():
            self._over.set_exception(error)

    async def _welcome(self, client: socket.socket) -> None:
        """Create the connection of a client. The call waits for the loop's next round, so that others get their turn."""
        if not self._admits(client):
            client.close()
            return
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(lambda: Connection(self._shared), client)
        except OSError:  # the client is gone already
            client.close()


# `loop.sock_accept` is not used, because cancelling it may lose a client that it has just accepted.
class _Acceptor:
    """Passes each client of a listener to `welcome`, and calls `make_room` when no descriptors are left."""

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
        """After `stop`: accept the waiting connections that are worth serving, and close the others."""
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


def _open_all(texts: Sequence[str], beside: Sequence[Listener] = ()) -> list[Listener]:
    """Return listeners on all addresses, which may share the ports of `beside`. On WebError, no address is open."""
    with contextlib.ExitStack() as undo:
        listeners: list[Listener] = []
        for text in texts:
            listeners.append(open_listener(text, beside))
            undo.callback(listeners[-1].close)
        undo.pop_all()
        return listeners
