"""Listens on the server's addresses, and accepts clients."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence

from telemetry_daemon.web.access.access_control import AccessControl, load_config
from telemetry_daemon.web.clients import RateLimitedLogger, RateLimits
from telemetry_daemon.web.messages import Handler
from telemetry_daemon.web.server.connection import Connection
from telemetry_daemon.web.server.listeners import BACKLOG, Listener, is_listening_at, open_listener
from telemetry_daemon.web.server.open_connections import (
    MAX_CONNECTIONS,
    Deadlines,
    OpenConnections,
    Phase,
    SharedState,
    connection_limit,
    raise_descriptor_limit,
)
from telemetry_parsers.dataclass import dataclass

CLOSING_CHECKS = 100  # one second in total
CLOSING_CHECK_SECONDS = 0.01
# At most this many clients are accepted at once: each takes about 0.1 ms, which delays the connected clients.
CLIENTS_PER_BATCH = 16
# While clients are waiting, the limit doubles with each batch, so that attackers do not delay a scraper.
MAX_CLIENTS_PER_BATCH = 128
PAUSE_AFTER_FAILURE_SECONDS = 0.1

_OUT_OF_DESCRIPTORS_ERRORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_BROKEN_LISTENER_ERRORS = frozenset({errno.EBADF, errno.EINVAL, errno.ENOTSOCK, errno.EOPNOTSUPP})

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServerStatistics:
    """The numbers of connections by phase, and of password checks."""

    connections: Mapping[Phase, int]
    password_checks: int
    waiting_for_password_check: int


class WebServer:
    """Serves a site on addresses such as `:9100` or `unix:/path`. Not thread-safe."""

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
        self._is_admitted: Callable[[socket.socket], bool] = lambda client: True  # noqa: ARG005  # everyone

    @property
    def addresses(self) -> tuple[str, ...]:
        """Return the addresses with the actual ports."""
        return tuple(self._acceptors[text].listener.address for text in self._listen if text in self._acceptors)

    def statistics(self) -> ServerStatistics:
        """Return the current numbers of connections and password checks."""
        connections, access = self._shared.open_connections, self._shared.access
        return ServerStatistics(
            {phase: connections.count(phase) for phase in Phase},
            access.password_checks,
            access.waiting_for_password_check,
        )

    async def start(self) -> None:
        """Listen on all addresses. If one of them fails, listen on none and raise WebError."""
        access = AccessControl(load_config(self._config_file), self._limits)
        self._start_accepting(_open_all(self._listen), access)
        self._allow_hosts(self._allowed_hosts)

    async def start_on(self, listener: Listener, is_admitted: Callable[[socket.socket], bool]) -> None:
        """Serve an open listener without passwords, but only the clients that `is_admitted` accepts."""
        self._is_admitted = is_admitted
        self._listen = (listener.setting,)
        self._start_accepting([listener], AccessControl(load_config("")))

    def _start_accepting(self, listeners: Sequence[Listener], access: AccessControl) -> None:
        capacity = connection_limit(raise_descriptor_limit(), MAX_CONNECTIONS + MAX_CLIENTS_PER_BATCH)
        connections = OpenConnections(min(capacity, MAX_CONNECTIONS))
        self._max_batch_size = max(CLIENTS_PER_BATCH, capacity - MAX_CONNECTIONS)
        self._shared = SharedState(self._handler, access, connections, self._deadlines)
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._add_acceptors(listeners)

    async def serve_forever(self) -> None:
        """Wait until `close` is called, or raise the error that ends the server."""
        await asyncio.shield(self._closed)

    async def reconfigure(self, listen: Sequence[str], config_file: str, allowed_hosts: Sequence[str] = ()) -> None:
        """Apply new settings without interruption. If they are unusable, change nothing and raise WebError."""
        addresses = tuple(dict.fromkeys(listen))
        loaded_config = load_config(config_file)
        old_listeners = [acceptor.listener for address, acceptor in self._acceptors.items() if address not in addresses]
        new_listeners = _open_all([address for address in addresses if address not in self._acceptors], old_listeners)
        kept_listeners = [acceptor.listener for address, acceptor in self._acceptors.items() if address in addresses]
        listeners = [*kept_listeners, *new_listeners]
        # If a new address includes an old one, the old listener stays open: closing it could lose a client.
        closing_addresses = [
            old.setting for old in old_listeners if not is_listening_at(listeners, old.socket.getsockname())
        ]
        closing_acceptors = [self._acceptors.pop(address) for address in closing_addresses]
        for acceptor in closing_acceptors:
            await acceptor.stop()
        self._shared.access.replace_config(loaded_config)
        self._listen = addresses
        self._add_acceptors(new_listeners)
        self._allow_hosts(allowed_hosts)
        for acceptor in closing_acceptors:
            await acceptor.empty_backlog(lambda client: is_listening_at(listeners, client.getsockname()))
            acceptor.listener.close()
        for connection in self._shared.open_connections.all():
            if not is_listening_at(listeners, connection.caller.local_address):
                connection.finish()

    async def close(self) -> None:
        """Finish running responses, and disconnect all clients. May be called twice."""
        acceptors = list(self._acceptors.values())
        self._acceptors.clear()
        if not acceptors:
            return
        for acceptor in acceptors:
            await acceptor.stop()
            acceptor.listener.close()
        await self._finish_all()
        await self._shared.access.close()
        if not self._closed.done():
            self._closed.set_result(None)

    async def _finish_all(self) -> None:
        connections = self._shared.open_connections
        for connection in connections.all():
            connection.finish()
        self._shared.access.refuse_waiting()
        for _ in range(CLOSING_CHECKS):
            if not connections.count(Phase.RESPONDING):
                break
            await asyncio.sleep(CLOSING_CHECK_SECONDS)  # lets connections send their last bytes
        for connection in connections.all():
            connection.abort()
        await asyncio.sleep(0)  # gives the transports a round of the loop to close their sockets

    def _add_acceptors(self, listeners: Sequence[Listener]) -> None:
        for listener in listeners:
            acceptor = _Acceptor(
                listener, self._create_connection, self._shared.open_connections.evict_oldest, self._max_batch_size
            )
            acceptor.task.add_done_callback(self._on_acceptor_end)
            self._acceptors[listener.setting] = acceptor

    def _allow_hosts(self, names: Sequence[str]) -> None:
        sockets = [self._acceptors[address].listener.socket for address in self._listen if address in self._acceptors]
        self._shared.access.allow_hosts(names, [listening_socket.getsockname() for listening_socket in sockets])

    def _on_acceptor_end(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._closed.done():
            self._closed.set_exception(error)

    async def _create_connection(self, client: socket.socket) -> None:
        if not self._is_admitted(client):
            client.close()
            return
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(lambda: Connection(self._shared), client)
        except OSError:  # the client has disconnected
            client.close()


# `loop.sock_accept` is not used, because cancelling it may lose an accepted client.
class _Acceptor:
    """Accepts the clients of a listener, and passes them to `create_connection`."""

    def __init__(
        self,
        listener: Listener,
        create_connection: Callable[[socket.socket], Awaitable[None]],
        evict_connection: Callable[[], object],
        max_batch_size: int = CLIENTS_PER_BATCH,
    ) -> None:
        self.listener = listener
        self._create_connection = create_connection
        self._evict_connection = evict_connection
        self._log = RateLimitedLogger(logger)
        self._wake_event = asyncio.Event()
        self._is_stopping = False
        self._max_batch_size = max_batch_size
        self._batch_size = CLIENTS_PER_BATCH
        self.task = asyncio.get_running_loop().create_task(self._run(), name=f"accept {listener.setting}")

    async def stop(self) -> None:
        """Stop accepting clients."""
        self._is_stopping = True
        self._wake_event.set()
        await asyncio.wait([self.task])

    async def empty_backlog(self, is_worth_serving: Callable[[socket.socket], bool]) -> None:
        """Serve or close the clients that still wait after `stop`."""
        with contextlib.suppress(OSError):  # the remaining connections are closed with the listener
            for _ in range(BACKLOG):
                client = self._accept_client()
                if client is None:
                    return
                if is_worth_serving(client):
                    await self._create_connection(client)
                else:
                    client.close()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._is_stopping:
            loop.add_reader(self.listener.socket, self._wake_event.set)
            try:
                await self._accept_until_error()
            finally:
                loop.remove_reader(self.listener.socket)
            if not self._is_stopping:
                await asyncio.sleep(PAUSE_AFTER_FAILURE_SECONDS)  # descriptors or memory may become free

    async def _accept_until_error(self) -> None:
        try:
            while not self._is_stopping:
                await self._wake_event.wait()
                self._wake_event.clear()
                if not self._is_stopping:
                    await asyncio.gather(*map(self._create_connection, self._accept_batch()))
        except OSError as error:
            # Other errors concern one client or the network, so accepting continues.
            if error.errno in _BROKEN_LISTENER_ERRORS:
                raise
            if error.errno in _OUT_OF_DESCRIPTORS_ERRORS:
                self._evict_connection()
                self._log.warning("cannot accept a connection: %s; raise LimitNOFILE", error.strerror)

    def _accept_batch(self) -> list[socket.socket]:
        clients: list[socket.socket] = []
        try:
            while len(clients) < self._batch_size and (client := self._accept_client()) is not None:
                clients.append(client)
        except OSError:
            if not clients:
                raise
        are_more_waiting = len(clients) == self._batch_size
        self._batch_size = min(self._max_batch_size, 2 * len(clients)) if are_more_waiting else CLIENTS_PER_BATCH
        return clients

    def _accept_client(self) -> socket.socket | None:
        try:
            return self.listener.socket.accept()[0]
        except BlockingIOError:  # no client is waiting
            return None


def _open_all(addresses: Sequence[str], old_listeners: Sequence[Listener] = ()) -> list[Listener]:
    with contextlib.ExitStack() as stack:
        listeners: list[Listener] = []
        for address in addresses:
            listeners.append(open_listener(address, old_listeners))
            stack.callback(listeners[-1].close)
        stack.pop_all()
        return listeners
