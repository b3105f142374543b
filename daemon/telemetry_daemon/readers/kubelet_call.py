"""Makes a gRPC call with an empty request over a connected socket."""
# https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md describes gRPC over HTTP/2.

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterable
from types import MappingProxyType

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import H2Error

from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.library import ReaderRefusal
from telemetry_parsers.model import Reason, State
from telemetry_parsers.owners.pod_resources import MAX_ANSWER_BYTES
from telemetry_parsers.text.lines import quote

_CHUNK_BYTES = 64 << 10
# These limits protect against a server that never stops sending.
_MAX_BYTES = MAX_ANSWER_BYTES + (512 << 10)
_MAX_EVENTS = 16_384
# The prefix of a message has one byte for the compression flag and four for the length.
_PREFIX_BYTES = 5
# Byte 3 of an HTTP/2 frame is the type. The first frame must be SETTINGS.
_FRAME_TYPE_OFFSET, _SETTINGS = 3, 4
_EMPTY_REQUEST = bytes(_PREFIX_BYTES)
_MAX_MESSAGE_LENGTH = 300
_PERCENT_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
_OK_STATUS = 0
# Maps status codes of gRPC (https://github.com/grpc/grpc/blob/master/doc/statuscodes.md) to (state, reason, text).
_STATUSES: MappingProxyType[int, tuple[State, Reason | None, str]] = MappingProxyType(
    {
        4: ("failed", "timeout", "the kubelet did not answer in time"),
        7: ("failed", "no_permission", "the kubelet does not permit the call"),
        8: ("failed", "exit_status", "the kubelet received too many requests; the next poll tries again"),
        12: ("not_supported", None, "the kubelet does not support the call, which needs Kubernetes 1.23 or later"),
        16: ("failed", "no_permission", "the kubelet does not permit the call"),
    }
)


def call(connection: socket.socket, method: str, deadline: float) -> bytes:
    """Make a call, and return the response. Raise ReaderRefusal or OSError if it fails or at the monotonic `deadline`."""
    http = H2Connection(H2Configuration(client_side=True, header_encoding=None))
    http.initiate_connection()
    stream_id = http.get_next_available_stream_id()
    http.send_headers(stream_id, _request_headers(method, deadline))
    http.send_data(stream_id, _EMPTY_REQUEST, end_stream=True)
    response = _Response()
    try:
        while not response.is_complete:
            _send(connection, http.data_to_send(), deadline)
            for event in http.receive_data(_receive(connection, response, deadline)):
                response.ingest(event)
            if response.unacknowledged_bytes and not response.is_complete:
                http.acknowledge_received_data(response.unacknowledged_bytes, stream_id)
                response.unacknowledged_bytes = 0
    except H2Error as error:
        raise _protocol_error(f"{type(error).__name__} {quote(str(error))}") from error
    return response.message()


def _request_headers(method: str, deadline: float) -> list[tuple[str, str]]:
    return [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", method),
        (":authority", "localhost"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        ("grpc-timeout", f"{max(1, int(1000 * _seconds_left(deadline)))}m"),
        ("user-agent", "device-telemetry"),
    ]


def _seconds_left(deadline: float) -> float:
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise ReaderRefusal("failed", "timeout", "no answer before the deadline")
    return seconds


def _send(connection: socket.socket, data: bytes, deadline: float) -> None:
    connection.settimeout(_seconds_left(deadline))
    connection.sendall(data)


def _receive(connection: socket.socket, response: _Response, deadline: float) -> bytes:
    connection.settimeout(_seconds_left(deadline))
    data = connection.recv(_CHUNK_BYTES)
    if len(data) > _FRAME_TYPE_OFFSET and not response.received_bytes and data[_FRAME_TYPE_OFFSET] != _SETTINGS:
        raise _protocol_error(_quote_bytes(data[:_MAX_MESSAGE_LENGTH]))
    if not data:
        text = "the connection was closed before the answer was complete: the kubelet is restarting, or another program listens on the socket"
        raise ReaderRefusal("failed", "exit_status", text)
    response.count_received(len(data))
    return data


@dataclass(slots=True)
class _Response:
    """The received part of a response."""

    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    is_complete: bool = False
    unacknowledged_bytes: int = 0
    received_bytes: int = 0
    _event_count: int = 0

    def count_received(self, received_bytes: int) -> None:
        self.received_bytes += received_bytes
        if self.received_bytes > _MAX_BYTES:
            raise _size_error()

    def ingest(self, event: Event) -> None:
        """Store an event's content. Raises ReaderRefusal if the call has failed."""
        self._event_count += 1
        if self._event_count > _MAX_EVENTS:
            raise _size_error()
        if isinstance(event, ResponseReceived | TrailersReceived):
            self.headers.update(_byte_headers(event.headers or ()))
            self._check_headers()
        elif isinstance(event, DataReceived):
            self.body += event.data or b""
            self.unacknowledged_bytes += event.flow_controlled_length or 0
            self._check_length()
        elif isinstance(event, StreamEnded):
            self.is_complete = True
        elif isinstance(event, StreamReset | ConnectionTerminated) and not self.is_complete:
            detail = "reset the call" if isinstance(event, StreamReset) else "is closing the connection"
            raise ReaderRefusal("failed", "exit_status", f"the kubelet {detail} (HTTP/2 error {event.error_code!s})")

    def message(self) -> bytes:
        self._check_status()
        if len(self.body) < _PREFIX_BYTES or len(self.body) != _PREFIX_BYTES + self._message_length():
            raise _protocol_error("a message has a different length than its header states")
        if self.body[0]:
            raise _protocol_error("a message is compressed, which was not requested")
        return bytes(self.body[_PREFIX_BYTES:])

    def _message_length(self) -> int:
        return int.from_bytes(self.body[1:_PREFIX_BYTES], "big")

    def _check_length(self) -> None:
        if len(self.body) >= _PREFIX_BYTES and self._message_length() > MAX_ANSWER_BYTES:
            raise _size_error()

    def _check_headers(self) -> None:
        http_status, content_type = self.headers.get(b":status", b""), self.headers.get(b"content-type", b"")
        if http_status != b"200" or not content_type.startswith(b"application/grpc"):
            raise _protocol_error(f"HTTP status {_quote_bytes(http_status)}, content {_quote_bytes(content_type)}")

    def _check_status(self) -> None:
        status = self.headers.get(b"grpc-status", b"")
        if not re.fullmatch(rb"[0-9]{1,3}", status):
            raise _protocol_error(f"gRPC status {_quote_bytes(status)}")
        if int(status) != _OK_STATUS:
            raise _status_refusal(int(status), self.headers.get(b"grpc-message", b""))


def _byte_headers(headers: Iterable[tuple[bytes | str, bytes | str]]) -> Iterable[tuple[bytes, bytes]]:
    return ((name, value) for name, value in headers if isinstance(name, bytes) and isinstance(value, bytes))


def _status_refusal(status: int, message: bytes) -> ReaderRefusal:
    state, reason, meaning = _STATUSES.get(status, ("failed", "exit_status", "the kubelet refuses"))
    text = _PERCENT_ESCAPE.sub(lambda match: bytes.fromhex(match[1].decode()), message[: 3 * _MAX_MESSAGE_LENGTH])
    return ReaderRefusal(state, reason, f"{meaning} (gRPC status {status}: {_quote_bytes(text)})")


def _quote_bytes(text: bytes) -> str:
    return quote(text.decode("utf-8", "replace")) or "none"


def _protocol_error(detail: str) -> ReaderRefusal:
    return ReaderRefusal("failed", "not_understood", f"the listening process does not answer like a kubelet: {detail}")


def _size_error() -> ReaderRefusal:
    text = f"the answer is larger than {MAX_ANSWER_BYTES >> 20} MiB, or never ends"
    return ReaderRefusal("failed", "too_much_output", text)
