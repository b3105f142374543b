"""What passes between the parts of the web server: requests and responses, and bytes between the socket and HTTP. No sockets here."""

from __future__ import annotations

import http
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

# The client of requests through the daemon's own socket in the runtime directory.
LOCAL_SOCKET = "local.sock"


@dataclass(frozen=True, slots=True)
class Request:
    """A GET or HEAD whose head was read whole; header names are lower case, `authority` is the host (and port) asked for, `client` who asks."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    authority: str = ""
    client: str = ""


class Pieces(Protocol):
    """The rest of a body, made piece by piece while the client takes it."""

    def begin(self, more: Callable[[], None], drop: Callable[[], None]) -> None:
        """The client has the head now. `more` says that there is a piece again, `drop` hangs up; both on the event loop."""
        ...

    def next(self) -> bytes | None:
        """The next piece; empty while there is none, None after the last one."""
        ...

    def close(self) -> None:
        """Nobody takes any more: all was taken, or the client is gone."""
        ...


@dataclass(frozen=True, slots=True)
class Response:
    """An answer whose body is ready, in parts so that cached bytes are never copied, or its beginning with pieces to follow."""

    status: int
    body: tuple[bytes, ...]
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()
    pieces: Pieces | None = None

    @property
    def phrase(self) -> str:
        """The words that HTTP has for the status, such as `Not Found`; empty where it has none."""
        try:
            return http.HTTPStatus(self.status).phrase
        except ValueError:  # HTTP allows a status without words
            return ""


# The site: it answers at once and never waits for a tool.
Handler = Callable[[Request], Response]


def status_page(status: int, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    """A response that says its status in words and nothing else."""
    return Response(status, (f"{http.HTTPStatus(status).phrase}\n".encode(),), headers=headers)


NOT_TLS = Response(400, (b"Client sent an HTTP request to an HTTPS server.\n",))


@dataclass(frozen=True, slots=True)
class Received:
    """What came out of bytes from the socket: bytes for HTTP, bytes to send back, whether the client closed."""

    data: bytes
    reply: bytes = b""
    closed: bool = False


class HandshakeError(Exception):
    """Client and server did not agree on TLS; `alert` is what to send before hanging up."""

    def __init__(self, reason: str, alert: bytes) -> None:
        super().__init__(reason)
        self.alert = alert


class Channel:
    """Turns the socket's bytes into HTTP's bytes, and back; this one lets them pass as they are."""

    def receive(self, data: bytes) -> Received:
        """What comes of bytes from the socket."""
        return Received(data)

    def protect(self, data: memoryview) -> bytes | memoryview:
        """The bytes to put on the socket for a piece of a response; here the same, uncopied."""
        return data

    def farewell(self) -> bytes:
        """The last bytes to put on the socket."""
        return b""
