"""The types that the parts of the web server exchange, without sockets."""

from __future__ import annotations

import http
from collections.abc import Callable, Mapping
from typing import Protocol

from telemetry_parsers.dataclass import dataclass, field

# The `client` of requests through the daemon's Unix socket.
LOCAL_SOCKET = "local.sock"


@dataclass(frozen=True, slots=True)
class Request:
    """A GET or HEAD request, with header names in lower case."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    authority: str = ""
    client: str = ""


class BodyPieces(Protocol):
    """The rest of a response body, which is produced piece by piece while it is sent."""

    def begin(self, notify: Callable[[], None], disconnect: Callable[[], None]) -> None:
        """Begin the body. `notify` reports that a piece is ready; `disconnect` closes the connection."""

    def next(self) -> bytes | None:
        """Return the next piece, b"" if none is ready, or None after the last."""

    def close(self) -> None:
        """Release the body's resources."""


@dataclass(frozen=True, slots=True)
class Response:
    """A response. The body continues with `pieces`, which are generated while the response is sent."""

    status: int
    body: tuple[bytes, ...]
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()
    pieces: BodyPieces | None = None

    @property
    def phrase(self) -> str:
        """Return the status text, such as `Not Found`."""
        try:
            return http.HTTPStatus(self.status).phrase
        except ValueError:  # HTTP allows a status without a phrase
            return ""


# A handler responds without waiting for a vendor's tool.
Handler = Callable[[Request], Response]


def status_page(status: int, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    """Return a response whose body is the status text."""
    return Response(status, (f"{http.HTTPStatus(status).phrase}\n".encode(),), headers=headers)


NOT_TLS = Response(400, (b"Client sent an HTTP request to an HTTPS server.\n",))


@dataclass(frozen=True, slots=True)
class ReceivedData:
    """Decrypted bytes from a client, and bytes to send back (`reply`)."""

    data: bytes
    reply: bytes = b""
    is_closed: bool = False


class HandshakeError(Exception):
    """The TLS handshake failed. The bytes in `alert` report the failure to the client."""

    def __init__(self, reason: str, alert: bytes) -> None:
        super().__init__(reason)
        self.alert = alert


class Channel:
    """Encrypts and decrypts the bytes of a connection. This base class leaves them unchanged."""

    def receive(self, data: bytes) -> ReceivedData:
        """Decrypt bytes from the socket."""
        return ReceivedData(data)

    def encrypt(self, data: memoryview) -> bytes | memoryview:
        """Encrypt bytes for the socket."""
        return data

    def closing_bytes(self) -> bytes:
        """Return the last bytes to send before the connection is closed."""
        return b""
