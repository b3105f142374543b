"""The messages within the web server: requests, responses, and bytes between the socket and HTTP. No sockets here."""

from __future__ import annotations

import http
from collections.abc import Callable, Mapping
from typing import Protocol

from telemetry_parsers.dataclass import dataclass, field

# The client of requests through the daemon's own socket in the runtime directory.
LOCAL_SOCKET = "local.sock"


@dataclass(frozen=True, slots=True)
class Request:
    """A GET or HEAD request with a complete head. Header names are lower case; `authority` is the requested host and port."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    authority: str = ""
    client: str = ""


class Pieces(Protocol):
    """The rest of a body, produced piece by piece while the client reads."""

    def begin(self, more: Callable[[], None], drop: Callable[[], None]) -> None:
        """Start after the head was sent. `more` signals a new piece, `drop` closes the connection: both on the event loop."""

    def next(self) -> bytes | None:
        """Return the next piece, empty if none is ready, or None after the last."""

    def close(self) -> None:
        """End the body: all pieces were read, or the client is gone."""


@dataclass(frozen=True, slots=True)
class Response:
    """An answer with a complete body, in parts to avoid copies of cached bytes, or with a beginning and later pieces."""

    status: int
    body: tuple[bytes, ...]
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()
    pieces: Pieces | None = None

    @property
    def phrase(self) -> str:
        """Return the status text, such as `Not Found`, or an empty text for other statuses."""
        try:
            return http.HTTPStatus(self.status).phrase
        except ValueError:  # HTTP allows a status without words
            return ""


# The site: it answers at once and never waits for a tool.
Handler = Callable[[Request], Response]


def status_page(status: int, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    """Return a response with only the status text."""
    return Response(status, (f"{http.HTTPStatus(status).phrase}\n".encode(),), headers=headers)


NOT_TLS = Response(400, (b"Client sent an HTTP request to an HTTPS server.\n",))


@dataclass(frozen=True, slots=True)
class Received:
    """The result of received bytes: bytes for HTTP, bytes to send back, and whether the client closed."""

    data: bytes
    reply: bytes = b""
    closed: bool = False


class HandshakeError(Exception):
    """The TLS handshake failed; `alert` is sent before the connection is closed."""

    def __init__(self, reason: str, alert: bytes) -> None:
        super().__init__(reason)
        self.alert = alert


class Channel:
    """Converts between the socket's bytes and HTTP's bytes; this class leaves them unchanged."""

    def receive(self, data: bytes) -> Received:
        """Return the result of bytes from the socket."""
        return Received(data)

    def protect(self, data: memoryview) -> bytes | memoryview:
        """Return the bytes to send for a piece of a response; unchanged and uncopied here."""
        return data

    def farewell(self) -> bytes:
        """Return the last bytes to send."""
        return b""
