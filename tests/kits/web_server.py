"""A running web server, certificates and clients for the tests of the web folder."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import bcrypt

from telemetry_daemon.web.messages import Handler, Request, Response
from telemetry_daemon.web.server.open_connections import Phase
from telemetry_daemon.web.server.shared import Deadlines
from telemetry_daemon.web.server.web_server import Statistics, WebServer

PATIENCE_SECONDS = 20.0
LOOPBACK = "127.0.0.1:0"
_Result = TypeVar("_Result")


def echo(request: Request) -> Response:
    """A site that says what it was asked."""
    return Response(200, (f"{request.method} {request.path}?{request.query}\n".encode(),))


@dataclass(frozen=True)
class Reply:
    """What a client got."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class RunningServer:
    """A server in a thread of its own."""

    def __init__(self, server: WebServer, loop: asyncio.AbstractEventLoop) -> None:
        self.server = server
        self._loop = loop

    @property
    def port(self) -> int:
        return int(self.server.addresses[0].rpartition(":")[2])

    def call(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        """Run a coroutine in the server's loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE_SECONDS)

    def statistics(self) -> Statistics:
        async def now() -> Statistics:
            return self.server.statistics()

        return self.call(now())

    def connections(self, *phases: Phase) -> int:
        """How many connections are in these phases, or in any."""
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
    """A started server, closed at the end; an error in any callback of its loop is a failure."""
    loop = asyncio.new_event_loop()
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
    """Wait until the other tasks of the loop have ended."""
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
    """One request on a connection of its own, from any of the loopback addresses."""
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
    """A raw connection from any of the loopback addresses."""
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS, source_address=(source, 0))


def read_to_end(client: socket.socket) -> bytes:
    """All that comes until the server hangs up; a reset is an end too."""
    pieces = []
    with contextlib.suppress(ConnectionResetError):  # what came before is looked at
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
    """Put a new file in the place of another at once, old enough to count as written."""
    new = path.with_suffix(".new")
    new.write_bytes(content.encode() if isinstance(content, str) else content)
    new.replace(path)


def basic(user: str, password: str) -> dict[str, str]:
    """The header that carries a name and a password."""
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def cheap_hash(password: str) -> str:
    """The cheapest bcrypt hash of a password."""
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()


@dataclass(frozen=True)
class Pair:
    """A certificate and its key."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority made with the openssl command."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.pair = Pair(folder / f"{name}.crt", folder / f"{name}.key")
        self._made = 0
        _openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"),
            *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),
            *("-subj", f"/CN={name}", "-keyout", str(self.pair.key), "-out", str(self.pair.certificate)),
        )

    def issue(self, name: str, sans: str) -> Pair:
        """A certificate for the names in `sans` (openssl's notation)."""
        self._made += 1
        stem = self.folder / f"{name}-{self._made}"
        pair = Pair(stem.with_suffix(".crt"), stem.with_suffix(".key"))
        request, extension = stem.with_suffix(".csr"), stem.with_suffix(".ext")
        extension.write_text(f"subjectAltName={sans}\nauthorityKeyIdentifier=keyid\nsubjectKeyIdentifier=hash\n")
        _openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}"),
            *("-keyout", str(pair.key), "-out", str(request)),
        )
        _openssl(
            *("x509", "-req", "-in", str(request), "-days", "2", "-extfile", str(extension)),
            *("-CA", str(self.pair.certificate), "-CAkey", str(self.pair.key), "-CAcreateserial"),
            *("-out", str(pair.certificate)),
        )
        return pair


@dataclass(frozen=True)
class Pki:
    """What the TLS tests need, made once."""

    authority: Authority
    other_authority: Authority
    server: Pair
    client: Pair
    other_client: Pair

    def trusting(self, client: Pair | None = None) -> ssl.SSLContext:
        """A client's context that trusts our authority, with a certificate of its own if given."""
        context = ssl.create_default_context(cafile=str(self.authority.pair.certificate))
        if client is not None:
            context.load_cert_chain(client.certificate, client.key)
        return context

    def tls_section(self, *lines: str) -> str:
        """A tls_server_config with our server's certificate."""
        first = (f"cert_file: {self.server.certificate}", f"key_file: {self.server.key}")
        return "tls_server_config:\n" + "".join(f"  {line}\n" for line in (*first, *lines))


def make_pki(folder: Path) -> Pki:
    """Two authorities, a server's certificate, and a client's certificate of each."""
    authority, other = Authority(folder, "authority"), Authority(folder, "other-authority")
    client_names = "DNS:prometheus.test,email:ops@example.test,IP:10.0.0.7,IP:fd00::7,URI:spiffe://example.test/prom"
    return Pki(
        authority,
        other,
        authority.issue("server", "DNS:localhost,IP:127.0.0.1"),
        authority.issue("client", client_names),
        other.issue("other-client", client_names),
    )


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=PATIENCE_SECONDS)
