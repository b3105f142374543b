"""Where daemons answer, and HTTP as a client of one: GET only, one connection that is kept, a deadline and a bound for each answer.

Addresses are `HOST`, `HOST:PORT`, `[IPV6]:PORT`, `http(s)://HOST[:PORT][/PATH]` or `unix:/PATH`.

By hand, since http.client takes a quarter of the time that a whole `telemetry snapshot` may take.
"""

from __future__ import annotations

import re
import socket
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from telemetry_daemon.guarded.folders import UnsafeError
from telemetry_daemon.guarded.named import connect
from telemetry_exporters.text import clean, cut
from telemetry_parsers.dataclass import dataclass, field

if TYPE_CHECKING:  # `telemetry snapshot` of this node needs no TLS
    from ssl import SSLContext

MOST_ANSWER_BYTES = 64 << 20
_LONGEST_REASON = 160
_REASONS = {
    401: "it wants a user and a password; give them with --password-file or $TELEMETRY_USER and $TELEMETRY_PASSWORD",
    403: "this client may not see it; its web configuration says who may",
    404: "no telemetry daemon answers there; check the port and the path",
    421: "it does not answer for this host name; add the name to its web.allowed_hosts",
    429: "it has too many requests; ask less often",
}
_MOST_HEAD_BYTES = 64 << 10
_READ_BYTES = 1 << 16
MOST_NODES = 256
_UNIX_PREFIX = "unix:"
_PORTS = {"http": 80, "https": 443}
_ADDRESS = re.compile(
    r"(?:(?P<scheme>https?)://)?(?:\[(?P<bracketed>[0-9A-Fa-f:.%]+)\]|(?P<plain>[A-Za-z0-9_.-]+))(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>/[!-~]*)?\Z"
)
_MOST_SHOWN = 80


class AddressError(ValueError):
    """An invalid address; the text names it, with the remedy."""


@dataclass(frozen=True, slots=True)
class Address:
    """A daemon's address and shown name. `unix` is the path of its socket. `certificate` is a file with its only accepted certificate."""

    name: str
    host: str = "localhost"
    port: int = 0
    path: str = ""
    is_tls: bool = False
    unix: str = ""
    certificate: str = ""

    @property
    def authority(self) -> str:
        """Return the host and port as HTTP writes them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}" if self.port else host


def address_of(text: str) -> Address:
    """Return the address in the text. Raises AddressError."""
    if text.startswith(_UNIX_PREFIX):
        return Address(text, unix=text.removeprefix(_UNIX_PREFIX))
    if "@" in text:
        raise AddressError("a node's address has no user and password in it; give them with --password-file")
    found = _ADDRESS.match(text)
    if found is None or not 0 < int(found["port"] or 1) <= 65535:
        shown = cut(clean(text), _MOST_SHOWN)
        raise AddressError(f"'{shown}' is no node; write HOST, HOST:PORT, [IPV6]:PORT or http(s)://HOST[:PORT][/PATH]")
    from telemetry_daemon.config.settings import DEFAULT_PORT  # the daemon of this node has no port and skips this

    scheme = found["scheme"]
    port = int(found["port"] or (_PORTS[scheme] if scheme else DEFAULT_PORT))
    host = found["bracketed"] or found["plain"]
    return Address(text, host, port, (found["path"] or "").rstrip("/"), scheme == "https")


def addresses_of(texts: list[str]) -> tuple[Address, ...]:
    """Return the addresses without duplicates, at most 256. Raises AddressError."""
    found = tuple(dict.fromkeys(map(address_of, texts)))
    if len(found) > MOST_NODES:
        raise AddressError(f"{len(found)} nodes are too many; {MOST_NODES} can be watched at once")
    return found


def listed(content: str) -> list[str]:
    """Return the addresses in a file: one per line, `#` begins a comment."""
    lines = (line.partition("#")[0].strip() for line in content.splitlines())
    return [line for line in lines if line]


class BrokenError(Exception):
    """The received data is not a valid answer."""


class _Connection:
    """A connection, with the received data that was not used yet."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._socket = connection
        self._seconds = seconds
        self._until = 0.0
        self._read = bytearray()
        self.is_kept = True

    def restart_clock(self) -> None:
        """Start the deadline of the next answer."""
        self._until = time.monotonic() + self._seconds

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def request(self, target: str, headers: Mapping[str, str]) -> tuple[int, Mapping[str, str]]:
        """Send a request. Return the status and the headers, with names in lower case."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._socket.sendall(f"GET {target} HTTP/1.1\r\n{lines}\r\n".encode("latin-1"))
        while b"\r\n\r\n" not in self._read:
            if len(self._read) > _MOST_HEAD_BYTES or not self._fill():
                raise BrokenError("the answer is not HTTP")
        head, _, rest = bytes(self._read).partition(b"\r\n\r\n")
        self._read = bytearray(rest)
        first, *named = head.decode("latin-1").split("\r\n")
        version, _, status = first.partition(" ")
        if not version.startswith("HTTP/1.") or not status[:3].isdecimal():
            raise BrokenError("the answer is not HTTP")
        pairs = (line.partition(":") for line in named)
        return int(status[:3]), {name.strip().lower(): value.strip() for name, _, value in pairs}

    def pieces(self, headers: Mapping[str, str]) -> Iterator[bytes]:
        """Yield the body as it arrives."""
        if headers.get("transfer-encoding", "").lower() == "chunked":
            yield from self._chunks()
        elif (length := headers.get("content-length", "")).isdecimal() and length.isascii():
            yield from self._exactly(int(length))
        else:
            self.is_kept = False
            yield bytes(self._read)
            while self._fill(beyond=True):
                yield bytes(self._read)

    def _chunks(self) -> Iterator[bytes]:
        while size := self._chunk_size():
            yield from self._exactly(size)
            self._line()
        while self._line():  # trailers
            pass

    def _chunk_size(self) -> int:
        try:
            return int(self._line().partition(b";")[0], 16)
        except ValueError as error:
            raise BrokenError("the answer is not HTTP") from error

    def _line(self) -> bytes:
        while b"\r\n" not in self._read:
            if len(self._read) > _MOST_HEAD_BYTES or not self._fill():
                raise BrokenError("its answer was cut off")
        line, _, rest = bytes(self._read).partition(b"\r\n")
        self._read = bytearray(rest)
        return line

    def _exactly(self, count: int) -> Iterator[bytes]:
        while count > 0:
            if not self._read and not self._fill():
                raise BrokenError("its answer was cut off")
            piece = bytes(self._read[:count])
            del self._read[: len(piece)]
            count -= len(piece)
            yield piece

    def _fill(self, *, beyond: bool = False) -> bool:
        """Receive more; return False at the end. `beyond` drops the earlier data."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)
        received = self._socket.recv(_READ_BYTES)
        if beyond:
            self._read.clear()
        self._read += received
        return bool(received)


class NodeError(Exception):
    """No answer from a node: the reason and a remedy; `status` is the HTTP status of a refusal."""

    def __init__(self, words: str, status: int = 0) -> None:
        super().__init__(words)
        self.status = status

    @property
    def is_absent(self) -> bool:
        """Return whether no process listens there; a socket without permission counts as a daemon's."""
        return isinstance(self.__cause__, FileNotFoundError | ConnectionRefusedError)


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user with a password, and the file of trusted certificates; empty if not given."""

    user: str = ""
    password: str = field(default="", repr=False)
    ca_file: str = ""

    def headers(self) -> Mapping[str, str]:
        """Return the request headers with the credentials."""
        if not self.user:
            return {}
        return {"Authorization": f"Basic {b64encode(f'{self.user}:{self.password}'.encode()).decode()}"}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with status 200; header names are lower case."""

    headers: Mapping[str, str]
    body: bytes


class Client:
    """Sends requests to one daemon, from one thread."""

    def __init__(self, address: Address, credentials: Credentials | None = None, seconds: float = 5.0) -> None:
        self._address = address
        self._credentials = credentials or Credentials()
        self._seconds = seconds
        self._connection: _Connection | None = None

    def get(self, target: str) -> Answer:
        """Return the answer to a request. Raises NodeError."""
        kept = self._connection is not None
        try:
            return self._ask(target)
        except (BrokenError, OSError) as error:
            self.close()
            if kept and not isinstance(error, TimeoutError):  # the daemon may have closed an idle connection
                return self.get(target)
            raise _node_error(error) from error

    def events(self, target: str) -> Iterator[tuple[str, str]]:
        """Yield server-sent events as they arrive: name and data. Raises NodeError, also at the end of the stream."""
        try:
            connection = self._connected()
            status, headers = connection.request(self._address.path + target, self._headers("text/event-stream"))
            _check(status)
            yield from _events(_without_end(connection, headers))
        except (BrokenError, OSError) as error:
            raise _node_error(error) from error
        finally:
            self.close()
        raise NodeError("it ended the stream")

    def close(self) -> None:
        """End the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _ask(self, target: str) -> Answer:
        connection = self._connected()
        status, headers = connection.request(self._address.path + target, self._headers("application/json"))
        body = bytearray()
        for piece in connection.pieces(headers):
            body += piece
            if len(body) > MOST_ANSWER_BYTES:
                raise BrokenError("its answer is too long")
        if headers.get("connection", "").lower() == "close" or not connection.is_kept:
            self.close()
        _check(status)
        return Answer(headers, bytes(body))

    def _connected(self) -> _Connection:
        if self._connection is None:
            self._connection = _Connection(_connect(self._address, self._credentials, self._seconds), self._seconds)
        self._connection.restart_clock()
        return self._connection

    def _headers(self, accept: str) -> Mapping[str, str]:
        named = {"Host": self._address.authority, "Accept": accept, "User-Agent": "telemetry"}
        return {**named, **self._credentials.headers()}


def _connect(address: Address, credentials: Credentials, seconds: float) -> socket.socket:
    if address.unix:
        from pathlib import Path

        return connect(Path(address.unix), seconds)
    connection = socket.create_connection((address.host, address.port), seconds)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not address.is_tls:
        return connection
    try:
        return _context(address, credentials).wrap_socket(connection, server_hostname=address.host)
    except BaseException:
        connection.close()
        raise


def _context(address: Address, credentials: Credentials) -> SSLContext:
    from ssl import VERIFY_X509_PARTIAL_CHAIN, create_default_context

    trusted = credentials.ca_file or address.certificate
    try:
        context = create_default_context(cafile=trusted or None)
    except (OSError, ValueError) as error:
        raise BrokenError(f"{trusted} has no certificates that can be read") from error
    if address.certificate and not credentials.ca_file:
        context.check_hostname = False
        context.verify_flags |= VERIFY_X509_PARTIAL_CHAIN
    return context


class _RefusedError(BrokenError):
    """An answer with a status other than 200."""

    def __init__(self, status: int) -> None:
        super().__init__(_REASONS.get(status, f"it answers with status {status}"))
        self.status = status


def _check(status: int) -> None:
    if status != 200:
        raise _RefusedError(status)


def _without_end(connection: _Connection, headers: Mapping[str, str]) -> Iterator[bytes]:
    """Yield the pieces of an endless body, each with a new deadline."""
    for piece in connection.pieces(headers):
        connection.restart_clock()
        yield piece


def _events(pieces: Iterator[bytes]) -> Iterator[tuple[str, str]]:
    waiting = b""
    for piece in pieces:
        waiting += piece
        if len(waiting) > MOST_ANSWER_BYTES:
            raise BrokenError("its event is too long")
        *blocks, waiting = waiting.split(b"\n\n")
        for block in blocks:
            lines = dict(line.split(": ", 1) for line in block.decode("utf-8", "replace").split("\n") if ": " in line)
            if "data" in lines:
                yield lines.get("event", "message"), lines["data"]


def _node_error(error: Exception) -> NodeError:
    if isinstance(error, TimeoutError):
        why = "no answer in time"
    elif isinstance(error, FileNotFoundError | ConnectionRefusedError):
        why = "no daemon answers there; start it"
    elif isinstance(error, socket.gaierror):
        why = f"{error.strerror}; check the name, or give the node's address"
    elif isinstance(error, UnsafeError):
        why = str(error)
    elif isinstance(error, PermissionError):
        why = "permission denied; run this as root or as the daemon's user"
    else:
        why = getattr(error, "verify_message", "") or getattr(error, "strerror", None) or str(error)
    return NodeError(cut(clean(why), _LONGEST_REASON), error.status if isinstance(error, _RefusedError) else 0)
