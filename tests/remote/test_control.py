"""The control socket: every line is answered or the connection is closed, and the next client is served."""

import asyncio
import json
import socket
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from telemetry_daemon.remote.control_socket import ControlServer, Handler, RefusedError, send_request, socket_path
from telemetry_parsers.model import Plain


@dataclass(frozen=True)
class Echo:
    pass


@dataclass(frozen=True)
class Repeat:
    text: str
    times: int


VERBS = {
    "echo": Handler(Echo, lambda _: {"got": "it"}),
    "repeat": Handler(Repeat, lambda request: {"got": request.text * request.times}),
}


def with_server(folder: Path, client: Callable[[Path], Plain]) -> Plain:
    async def serve() -> Plain:
        server = ControlServer(socket_path(str(folder)), VERBS)
        await server.start()
        try:
            return await asyncio.to_thread(client, socket_path(str(folder)))
        finally:
            await server.close()

    return asyncio.run(serve())


def answer_to(path: Path, line: bytes) -> bytes:
    """Return the answer to a line; empty if the server hangs up in the middle of it."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        connection.connect(str(path))
        try:
            connection.sendall(line)
            connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(1 << 16), b""))
        except ConnectionError:  # the server hung up
            return b""


def test_a_verb_is_answered(tmp_path: Path) -> None:
    assert with_server(tmp_path, lambda path: send_request(path, "repeat", text="x", times=2)) == {"got": "xx"}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"verb": "repeat", "text": 7, "times": 1}', "repeat: text: expected a string, found 7"),
        (
            b'{"verb": "repeat", "text": "x", "times": [1]}',
            "repeat: times: expected a 64-bit integer, found list",
        ),
        (
            b'{"verb": "repeat", "text": "x", "times": 1e400}',
            "repeat: times: expected a 64-bit integer, found inf",
        ),
        (b'{"verb": "repeat", "text": "x"}', "repeat: times: missing"),
        (b'{"verb": "echo", "id": {}}', "echo: id: unknown key"),
        (b'{"verb": "echo", "verb": "repeat"}', "repeat: text: missing"),
    ],
)
def test_arguments_of_the_wrong_types_are_reported(tmp_path: Path, line: bytes, expected: str) -> None:
    assert json.loads(with_server(tmp_path, lambda path: answer_to(path, line + b"\n"))) == {"error": expected}


@pytest.mark.parametrize(
    "line",
    [b'{"verb": "sing"}', b'{"verb": ["echo"]}', b'{"verb": {"echo": 1}}', b'{"verb": null}', b"{}", b"[]", b'"echo"'],
)
def test_unknown_verb_is_refused_with_the_known_ones(tmp_path: Path, line: bytes) -> None:
    answer = json.loads(with_server(tmp_path, lambda path: answer_to(path, line + b"\n")))
    assert answer == {"error": "unknown request; the valid requests are echo, repeat"}


@pytest.mark.parametrize(
    "line", [b"", b"\n", b"echo\n", b"\xff\xfe\n", b'{"verb"', b"[" * 60_000 + b"\n", b"x" * 200_000]
)
def test_invalid_request_does_not_affect_the_next(tmp_path: Path, line: bytes) -> None:
    def client(path: Path) -> Plain:
        answer = answer_to(path, line)
        assert not answer or "error" in json.loads(answer)
        return send_request(path, "echo")

    assert with_server(tmp_path, client) == {"got": "it"}


def test_only_the_owner_may_use_the_socket_and_it_is_gone_at_the_end(tmp_path: Path) -> None:
    assert stat.S_IMODE(with_server(tmp_path, lambda path: path.stat().st_mode)) == 0o600
    assert not socket_path(str(tmp_path)).exists()


def test_refusal_has_a_reason(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="the valid requests are echo, repeat"):
        with_server(tmp_path, lambda path: send_request(path, "sing"))
