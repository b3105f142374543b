"""Another listener on the kubelet's socket: one clear failure before the deadline, and the next call works."""

import random
import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, count, repeat
from pathlib import Path

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import StreamEnded

from kits.fake_kubelet import SOCKET, FakeKubelet, RawServer, short
from kits.pod_resources import listed
from telemetry_daemon.config.optional_sections import AttributionSettings
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.kubelet import create_reader
from telemetry_parsers.model import Capture, Failure
from telemetry_parsers.owners.kubelet import PARSER

PODS = PARSER.polls[0]
# The first deadline must expire, the second must not.
SHORT, LONG_ENOUGH = 0.5, 60.0
HEADERS = {":status": "200", "content-type": "application/grpc"}
OK = {"grpc-status": "0"}
Answer = Callable[[socket.socket], None]


def read(root: Path, deadline: float = LONG_ENOUGH) -> Capture:
    return create_reader(str(root), AttributionSettings(enabled=True)).read(replace(PODS, deadline=deadline), Targets())


def failure(root: Path, answer: Answer, deadline: float = LONG_ENOUGH) -> Failure:
    """Return the failure with this listener; a kubelet that follows must work."""
    with RawServer(root / SOCKET, answer):
        capture = read(root, deadline)
    with FakeKubelet(root):
        assert read(root).failure is None
    assert capture.failure is not None
    assert capture.outputs == ()
    assert capture.failure.text.isprintable()
    return capture.failure


@dataclass
class Http2:
    """An HTTP/2 server's end of one connection, after it has read the whole request on `stream`."""

    connection: socket.socket
    http: H2Connection
    stream: int

    def send(self) -> None:
        self.connection.sendall(self.http.data_to_send())

    def answer(self, message: bytes, headers: Mapping[str, str], trailers: Mapping[str, str] | None) -> None:
        self.http.send_headers(self.stream, list(headers.items()))
        self.http.send_data(self.stream, message, end_stream=trailers is None)
        if trailers is not None:
            self.http.send_headers(self.stream, list(trailers.items()), end_stream=True)
        self.send()


def http2(respond: Callable[[Http2], None]) -> Answer:
    def answer(connection: socket.socket) -> None:
        http = H2Connection(H2Configuration(client_side=False))
        http.initiate_connection()
        connection.sendall(http.data_to_send())
        while data := connection.recv(65536):
            for event in http.receive_data(data):
                if isinstance(event, StreamEnded):
                    respond(Http2(connection, http, event.stream_id))
                    silent(connection)
                    return
            connection.sendall(http.data_to_send())

    return answer


def answering(message: bytes, headers: Mapping[str, str] = HEADERS, trailers: Mapping[str, str] | None = OK) -> Answer:
    return http2(lambda end: end.answer(message, headers, trailers))


def framed(message: bytes, flag: int = 0) -> bytes:
    return struct.pack(">BI", flag, len(message)) + message


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload


def sending(pieces: Iterator[bytes]) -> Answer:
    def answer(connection: socket.socket) -> None:
        connection.recv(65536)
        for piece in pieces:
            connection.sendall(piece)
        silent(connection)

    return answer


def silent(connection: socket.socket) -> None:
    while connection.recv(65536):
        continue


SETTINGS = frame(4, 0, 0, b"")
LONG = bytes(1 << 14)
ANSWER = framed(listed())


# Name, listener, reason of the failure, words of its text.
LISTENERS = [
    pytest.param(lambda connection: None, "exit_status", "", id="closes at once"),
    pytest.param(sending(iter([SETTINGS + frame(1, 4, 1, b"\x88")[:-1]])), "timeout", "deadline", id="half a frame"),
    pytest.param(sending(iter([b"HTTP/1.1 400 Bad Request\r\n\r\n"])), "not_understood", "HTTP/1.1 400 Bad Request", id="HTTP/1.1"),
    pytest.param(sending(iter([random.Random(7).randbytes(4096)])), "not_understood", "", id="random bytes"),
    pytest.param(silent, "timeout", "deadline", id="silence"),
    pytest.param(answering(b"<html>", {":status": "404", "content-type": "text/html"}), "not_understood", "404", id="web"),
    pytest.param(answering(ANSWER, {":status": "200", "content-type": "text/plain"}), "not_understood", "text/plain", id="no gRPC"),
    pytest.param(answering(ANSWER, trailers=None), "not_understood", "gRPC status none", id="no status"),
    pytest.param(answering(ANSWER + ANSWER), "not_understood", "length", id="two messages"),
    pytest.param(answering(framed(listed(), flag=1)), "not_understood", "compressed", id="compressed"),
    pytest.param(answering(struct.pack(">BI", 0, 1 << 31)), "too_much_output", "4 MiB", id="2 GiB announced"),
    pytest.param(http2(lambda end: (end.http.reset_stream(end.stream, 2), end.send())), "exit_status", "reset the call", id="RST"),
    pytest.param(http2(lambda end: (end.http.close_connection(), end.send())), "exit_status", "closing", id="GOAWAY"),
    pytest.param(http2(lambda end: None), "timeout", "deadline", id="no answer"),
    pytest.param(sending(iter([SETTINGS, frame(0, 0, 1, LONG)])), "not_understood", "", id="content before headers"),
    pytest.param(sending(SETTINGS + frame(6, 0, 0, struct.pack(">Q", number)) for number in count()), "timeout", "deadline", id="endless pings"),
    pytest.param(sending(chain([SETTINGS], repeat(frame(99, 0, 0, LONG)))), "too_much_output", "never ends", id="endless unknown frames"),
    pytest.param(sending(iter([SETTINGS, frame(1, 0, 1, b""), *repeat(frame(9, 0, 1, b""), 9999)])), "not_understood", "", id="endless headers"),
    pytest.param(sending(repeat(SETTINGS + frame(1, 4, 1, b"\x88") + frame(0, 0, 1, b"") * 4000)), None, "", id="endless empty content"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "reason", "words"), LISTENERS)
def test_wrong_listener_is_one_clear_failure(tmp_path: Path, answer: Answer, reason: str | None, words: str) -> None:
    found = failure(tmp_path, answer, SHORT if reason == "timeout" else LONG_ENOUGH)
    assert found.state == "failed"
    assert found.reason == reason if reason else found.reason not in ("internal", "timeout")
    assert words in found.text


def test_a_status_comes_before_its_message(tmp_path: Path) -> None:
    """Percent-encoded, and in the only headers of an answer without content."""
    headers = {**HEADERS, "grpc-status": "8", "grpc-message": "zu viel: 5 %25%0AGer%C3%A4t %ZZ%"}

    def refuse(end: Http2) -> None:
        end.http.send_headers(end.stream, list(headers.items()), end_stream=True)
        end.send()

    assert "(gRPC status 8: zu viel: 5 % Gerät %ZZ%)" in failure(tmp_path, http2(refuse)).text


def test_a_full_queue_is_a_failure_at_once(tmp_path: Path) -> None:
    path = tmp_path / SOCKET
    path.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as first, short(path) as name:
        listener.bind(name)
        listener.listen(0)
        first.connect(name)
        capture = read(tmp_path)
    assert capture.failure is not None
    assert (capture.failure.state, capture.failure.reason) == ("failed", "timeout")
    assert "too many are waiting" in capture.failure.text
