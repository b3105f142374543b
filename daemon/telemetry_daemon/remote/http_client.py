"""An HTTP client for GET requests to daemons."""

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

if TYPE_CHECKING:  # at run time, imported only for TLS
    from ssl import SSLContext

MAX_ANSWER_BYTES = 64 << 20
_MAX_REASON_LENGTH = 160
_REASONS_BY_STATUS = {
    401: "a user and a password are required; set --password-file or $TELEMETRY_USER and $TELEMETRY_PASSWORD",
    403: "the daemon's web configuration denies access",
    404: "no telemetry daemon answers there; check the port and the path",
    421: "the host name is not allowed; add it to web.allowed_hosts of that daemon",
    429: "too many requests; send requests less often",
}
_MAX_HEAD_BYTES = 64 << 10
_READ_BYTES = 1 << 16
MAX_NODES = 256
_UNIX_PREFIX = "unix:"
_DEFAULT_PORTS = {"http": 80, "https": 443}
_ADDRESS = re.compile(
    r"(?:(?P<scheme>https?)://)?(?:\[(?P<bracketed>[0-9A-Fa-f:.%]+)\]|(?P<host>[A-Za-z0-9_.-]+))(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>/[!-~]*)?\Z"
)
_MAX_SHOWN_LENGTH = 80


class AddressError(ValueError):
    """An invalid address."""


@dataclass(frozen=True, slots=True)
class Address:
    """A daemon's address: a host and port, or the Unix socket `unix`. `certificate` is the file of its certificate."""

    name: str
    host: str = "localhost"
    port: int = 0
    path: str = ""
    is_tls: bool = False
    unix: str = ""
    certificate: str = ""

    @property
    def authority(self) -> str:
        """Return the value of the `Host` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}" if self.port else host


def node_address(text: str) -> Address:
    """Parse an address such as HOST:PORT or unix:/PATH. Raise AddressError if it is invalid."""
    if text.startswith(_UNIX_PREFIX):
        return Address(text, unix=text.removeprefix(_UNIX_PREFIX))
    if "@" in text:
        raise AddressError("a node's address must not contain a user or password; use --password-file")
    match = _ADDRESS.match(text)
    if match is None or not 0 < int(match["port"] or 1) <= 65535:
        short_text = cut(clean(text), _MAX_SHOWN_LENGTH)
        raise AddressError(
            f"'{short_text}' is not a valid node; use HOST, HOST:PORT, [IPV6]:PORT or http(s)://HOST[:PORT][/PATH]"
        )
    from telemetry_daemon.config.settings import DEFAULT_PORT  # imported only for addresses with a host

    scheme = match["scheme"]
    port = int(match["port"] or (_DEFAULT_PORTS[scheme] if scheme else DEFAULT_PORT))
    host = match["bracketed"] or match["host"]
    return Address(text, host, port, (match["path"] or "").rstrip("/"), scheme == "https")


def node_addresses(texts: list[str]) -> tuple[Address, ...]:
    """Parse addresses, and drop duplicates. Raise AddressError if one is invalid, or there are too many."""
    addresses = tuple(dict.fromkeys(map(node_address, texts)))
    if len(addresses) > MAX_NODES:
        raise AddressError(f"{len(addresses)} nodes are too many; the maximum is {MAX_NODES}")
    return addresses


def parse_node_list(content: str) -> list[str]:
    """Return the addresses in a file with one address per line and `#` comments."""
    lines = (line.partition("#")[0].strip() for line in content.splitlines())
    return [line for line in lines if line]


class InvalidResponseError(Exception):
    """The response is not valid, or has an error status."""


class _Connection:
    def __init__(self, connection: socket.socket, timeout_seconds: float) -> None:
        self._socket = connection
        self._timeout_seconds = timeout_seconds
        self._deadline = 0.0
        self._buffer = bytearray()
        self.is_persistent = True

    def restart_timeout(self) -> None:
        self._deadline = time.monotonic() + self._timeout_seconds

    def close(self) -> None:
        self._socket.close()

    def request(self, target: str, headers: Mapping[str, str]) -> tuple[int, Mapping[str, str]]:
        """Send a request, and return the status and the headers in lower case."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._socket.sendall(f"GET {target} HTTP/1.1\r\n{lines}\r\n".encode("latin-1"))
        while b"\r\n\r\n" not in self._buffer:
            if len(self._buffer) > _MAX_HEAD_BYTES or not self._receive():
                raise InvalidResponseError("the answer is not valid HTTP")
        head, _, remainder = bytes(self._buffer).partition(b"\r\n\r\n")
        self._buffer = bytearray(remainder)
        status_line, *header_lines = head.decode("latin-1").split("\r\n")
        version, _, status = status_line.partition(" ")
        if not version.startswith("HTTP/1.") or not status[:3].isdecimal():
            raise InvalidResponseError("the answer is not valid HTTP")
        pairs = (line.partition(":") for line in header_lines)
        return int(status[:3]), {name.strip().lower(): value.strip() for name, _, value in pairs}

    def body_pieces(self, headers: Mapping[str, str]) -> Iterator[bytes]:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            yield from self._read_chunks()
        elif (length := headers.get("content-length", "")).isdecimal() and length.isascii():
            yield from self._read_exactly(int(length))
        else:
            self.is_persistent = False
            yield bytes(self._buffer)
            while self._receive(clear=True):
                yield bytes(self._buffer)

    def _read_chunks(self) -> Iterator[bytes]:
        while size := self._read_chunk_size():
            yield from self._read_exactly(size)
            self._read_line()
        while self._read_line():  # skip the trailers
            pass

    def _read_chunk_size(self) -> int:
        try:
            return int(self._read_line().partition(b";")[0], 16)
        except ValueError as error:
            raise InvalidResponseError("the answer is not valid HTTP") from error

    def _read_line(self) -> bytes:
        while b"\r\n" not in self._buffer:
            if len(self._buffer) > _MAX_HEAD_BYTES or not self._receive():
                raise InvalidResponseError("the answer was truncated")
        line, _, remainder = bytes(self._buffer).partition(b"\r\n")
        self._buffer = bytearray(remainder)
        return line

    def _read_exactly(self, count: int) -> Iterator[bytes]:
        while count > 0:
            if not self._buffer and not self._receive():
                raise InvalidResponseError("the answer was truncated")
            piece = bytes(self._buffer[:count])
            del self._buffer[: len(piece)]
            count -= len(piece)
            yield piece

    def _receive(self, *, clear: bool = False) -> bool:
        """Receive bytes into the buffer. Return False at the end of the connection."""
        seconds_left = self._deadline - time.monotonic()
        if seconds_left <= 0:
            raise TimeoutError
        self._socket.settimeout(seconds_left)
        received = self._socket.recv(_READ_BYTES)
        if clear:
            self._buffer.clear()
        self._buffer += received
        return bool(received)


class NodeError(Exception):
    """A node did not answer, or answered with an error `status`."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status

    @property
    def is_daemon_missing(self) -> bool:
        """Return whether no daemon listens at the address."""
        return isinstance(self.__cause__, FileNotFoundError | ConnectionRefusedError)


@dataclass(frozen=True, slots=True)
class Credentials:
    """The user, password and trusted certificates, if configured."""

    user: str = ""
    password: str = field(default="", repr=False)
    ca_file: str = ""

    def headers(self) -> Mapping[str, str]:
        """Return the request headers with the credentials."""
        if not self.user:
            return {}
        return {"Authorization": f"Basic {b64encode(f'{self.user}:{self.password}'.encode()).decode()}"}


@dataclass(frozen=True, slots=True)
class Response:
    """A response with status 200, and with header names in lower case."""

    headers: Mapping[str, str]
    body: bytes


class Client:
    """Sends requests to one daemon. Not thread-safe."""

    def __init__(self, address: Address, credentials: Credentials | None = None, timeout_seconds: float = 5.0) -> None:
        self._address = address
        self._credentials = credentials or Credentials()
        self._timeout_seconds = timeout_seconds
        self._connection: _Connection | None = None

    def get(self, target: str) -> Response:
        """Send a request, and return the response. Raise NodeError if there is no response with status 200."""
        was_connected = self._connection is not None
        try:
            return self._request(target)
        except (InvalidResponseError, OSError) as error:
            self.close()
            if was_connected and not isinstance(error, TimeoutError):  # the daemon may have closed an idle connection
                return self.get(target)
            raise _node_error(error) from error

    def events(self, target: str) -> Iterator[tuple[str, str]]:
        """Yield each server-sent event's name and data. Raises NodeError if the stream fails or ends."""
        try:
            connection = self._open_connection()
            status, headers = connection.request(self._address.path + target, self._headers("text/event-stream"))
            _check_status(status)
            yield from _parse_events(_stream_pieces(connection, headers))
        except (InvalidResponseError, OSError) as error:
            raise _node_error(error) from error
        finally:
            self.close()
        raise NodeError("the stream ended")

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _request(self, target: str) -> Response:
        connection = self._open_connection()
        status, headers = connection.request(self._address.path + target, self._headers("application/json"))
        body = bytearray()
        for piece in connection.body_pieces(headers):
            body += piece
            if len(body) > MAX_ANSWER_BYTES:
                raise InvalidResponseError(f"the answer exceeds {MAX_ANSWER_BYTES >> 20} MiB")
        if headers.get("connection", "").lower() == "close" or not connection.is_persistent:
            self.close()
        _check_status(status)
        return Response(headers, bytes(body))

    def _open_connection(self) -> _Connection:
        if self._connection is None:
            self._connection = _Connection(
                _connect(self._address, self._credentials, self._timeout_seconds), self._timeout_seconds
            )
        self._connection.restart_timeout()
        return self._connection

    def _headers(self, accept: str) -> Mapping[str, str]:
        headers = {"Host": self._address.authority, "Accept": accept, "User-Agent": "telemetry"}
        return {**headers, **self._credentials.headers()}


def _connect(address: Address, credentials: Credentials, timeout_seconds: float) -> socket.socket:
    if address.unix:
        from pathlib import Path

        return connect(Path(address.unix), timeout_seconds)
    connection = socket.create_connection((address.host, address.port), timeout_seconds)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not address.is_tls:
        return connection
    try:
        return _tls_context(address, credentials).wrap_socket(connection, server_hostname=address.host)
    except BaseException:
        connection.close()
        raise


def _tls_context(address: Address, credentials: Credentials) -> SSLContext:
    from ssl import VERIFY_X509_PARTIAL_CHAIN, create_default_context

    ca_file = credentials.ca_file or address.certificate
    try:
        context = create_default_context(cafile=ca_file or None)
    except (OSError, ValueError) as error:
        raise InvalidResponseError(f"{ca_file} contains no valid certificates") from error
    if address.certificate and not credentials.ca_file:
        context.check_hostname = False
        context.verify_flags |= VERIFY_X509_PARTIAL_CHAIN
    return context


class _RefusedError(InvalidResponseError):
    def __init__(self, status: int) -> None:
        super().__init__(_REASONS_BY_STATUS.get(status, f"the response has status {status}"))
        self.status = status


def _check_status(status: int) -> None:
    if status != 200:
        raise _RefusedError(status)


def _stream_pieces(connection: _Connection, headers: Mapping[str, str]) -> Iterator[bytes]:
    for piece in connection.body_pieces(headers):
        connection.restart_timeout()
        yield piece


def _parse_events(pieces: Iterator[bytes]) -> Iterator[tuple[str, str]]:
    buffer = b""
    for piece in pieces:
        buffer += piece
        if len(buffer) > MAX_ANSWER_BYTES:
            raise InvalidResponseError(f"an event exceeds {MAX_ANSWER_BYTES >> 20} MiB")
        *blocks, buffer = buffer.split(b"\n\n")
        for block in blocks:
            lines = dict(line.split(": ", 1) for line in block.decode("utf-8", "replace").split("\n") if ": " in line)
            if "data" in lines:
                yield lines.get("event", "message"), lines["data"]


def _node_error(error: Exception) -> NodeError:
    if isinstance(error, TimeoutError):
        reason = "no answer in time"
    elif isinstance(error, FileNotFoundError | ConnectionRefusedError):
        reason = "no daemon answers there; start it"
    elif isinstance(error, socket.gaierror):
        reason = f"{error.strerror}; check the name, or use the IP address"
    elif isinstance(error, UnsafeError):
        reason = str(error)
    elif isinstance(error, PermissionError):
        reason = "permission denied; run this as root or as the daemon's user"
    else:
        reason = getattr(error, "verify_message", "") or getattr(error, "strerror", None) or str(error)
    return NodeError(cut(clean(reason), _MAX_REASON_LENGTH), error.status if isinstance(error, _RefusedError) else 0)
