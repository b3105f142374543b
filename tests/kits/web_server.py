"""A running web server, certificates and clients for the tests in tests/web."""

import asyncio
import base64
import contextlib
import http.client
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import bcrypt

from telemetry_daemon.web.messages import Handler, Request, Response
from telemetry_daemon.web.server.open_connections import Deadlines, Phase
from telemetry_daemon.web.server.web_server import ServerStatistics, WebServer

PATIENCE_SECONDS = 60.0
LOOPBACK = "127.0.0.1:0"
_Result = TypeVar("_Result")


def echo(request: Request) -> Response:
    return Response(200, (f"{request.method} {request.path}?{request.query}\n".encode(),))


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes
    headers: Mapping[str, str]


class _Loop(asyncio.SelectorEventLoop):
    """An event loop whose clock a test can move forward."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


class RunningServer:
    def __init__(self, server: WebServer, loop: _Loop) -> None:
        self.server = server
        self._loop = loop

    @property
    def port(self) -> int:
        return int(self.server.addresses[0].rpartition(":")[2])

    def call(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE_SECONDS)

    def pass_time(self, seconds: float) -> None:
        """Advance the clock of the server's deadlines."""

        async def pass_it() -> None:
            self._loop.ahead += seconds

        self.call(pass_it())

    def statistics(self) -> ServerStatistics:
        async def now() -> ServerStatistics:
            return self.server.statistics()

        return self.call(now())

    def connections(self, *phases: Phase) -> int:
        """Return how many connections are in these phases; without phases, all connections."""
        counts = self.statistics().connections
        return sum(counts[phase] for phase in phases or Phase)


@contextlib.contextmanager
def running_server(
    handler: Handler = echo,
    listen: tuple[str, ...] = (LOOPBACK,),
    config_file: str | Path = "",
    deadlines: Deadlines | None = None,
    allowed_hosts: tuple[str, ...] = (),
) -> Iterator[RunningServer]:
    """Return a started server, closed at the end; an error in any callback of its loop is a failure."""
    loop = _Loop()
    mishaps: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: mishaps.append(context))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = WebServer(handler, listen, str(config_file), deadlines, allowed_hosts)
    running = RunningServer(server, loop)
    try:
        running.call(server.start())
        yield running
    finally:
        running.call(server.close())
        running.call(_settled())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
    assert mishaps == []


async def _settled() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others, timeout=PATIENCE_SECONDS)


def fetch(
    port: int,
    path: str = "/",
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
    source: str = "127.0.0.1",
) -> Reply:
    """Send one request on a new connection, from any of the loopback addresses."""
    client: http.client.HTTPConnection
    more: Mapping[str, Any] = {"timeout": PATIENCE_SECONDS, "source_address": (source, 0)}
    if tls is None:
        client = http.client.HTTPConnection("127.0.0.1", port, **more)
    else:
        client = http.client.HTTPSConnection("127.0.0.1", port, context=tls, **more)
    with contextlib.closing(client):
        client.request(method, path, headers=dict(headers or {}))
        answer = client.getresponse()
        return Reply(answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()})


def connect(port: int, source: str = "127.0.0.1") -> socket.socket:
    """Open a raw connection from any of the loopback addresses."""
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS, source_address=(source, 0))


def read_to_end(client: socket.socket) -> bytes:
    """Return all that arrives until the server closes or resets the connection."""
    pieces = []
    with contextlib.suppress(ConnectionResetError):  # the bytes before the reset are returned
        while piece := client.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)


def exchange(port: int, *pieces: bytes, pause_seconds: float = 0.0) -> bytes:
    """Send pieces, close the sending side, and return all that the server sends."""
    with connect(port) as client:
        for piece in pieces:
            client.sendall(piece)
            time.sleep(pause_seconds)
        client.shutdown(socket.SHUT_WR)
        return read_to_end(client)


def replace(path: Path, content: bytes | str) -> None:
    """Replace a file atomically with a new one that is old enough to count as written."""
    new = path.with_suffix(".new")
    new.write_bytes(content.encode() if isinstance(content, str) else content)
    new.replace(path)


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def cheap_hash(password: str) -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()


@dataclass(frozen=True)
class Pair:
    certificate: Path
    key: Path


class Pki:
    """The certificates in a folder: a server's, its renewed ones, and a client's of each of two authorities."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority, self.server = self._pair("authority"), self._pair("server-1")
        self.renewed = tuple(self._pair(f"renewed-{number}") for number in (3, 4, 5))
        self.client, self.other_client = self._pair("client-2"), self._pair("other-client-1")

    def _pair(self, name: str) -> Pair:
        return Pair(self.folder / f"{name}.crt", self.folder / f"{name}.key")

    def trusting(self, client: Pair | None = None) -> ssl.SSLContext:
        """Return a client's context that trusts our authority, with a client certificate if given."""
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        if client is not None:
            context.load_cert_chain(client.certificate, client.key)
        return context

    def tls_section(self, *lines: str) -> str:
        first = (f"cert_file: {self.server.certificate}", f"key_file: {self.server.key}")
        return "tls_server_config:\n" + "".join(f"  {line}\n" for line in (*first, *lines))


def make_pki(folder: Path) -> Pki:
    """Copy the certificates of `kits/pki` into a folder; they are valid from 2019 until 2119."""
    shutil.copytree(Path(__file__).parent / "pki", folder, dirs_exist_ok=True)
    return Pki(folder)
