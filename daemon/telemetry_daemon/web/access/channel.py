"""Between the socket and HTTP: plain bytes as they are. No sockets here; `tls_channel.py` has the one that encrypts."""

from __future__ import annotations

from dataclasses import dataclass

TLS_HANDSHAKE_RECORD = 0x16


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
