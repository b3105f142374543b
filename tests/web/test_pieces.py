"""An answer that is made piece by piece: whole for who reads, dropped for who does not, and nobody else waits for it."""

from __future__ import annotations

import contextlib
import http.client
import time

import pytest

from kits.waiting import until
from kits.web_server import PATIENCE_SECONDS, connect, read_to_end, running_server
from telemetry_daemon.web.messages import Response
from telemetry_daemon.web.server.open_connections import Phase
from telemetry_daemon.web.server.shared import Deadlines


class Counted:
    """So many pieces, then the end; counts how many were made."""

    def __init__(self, count, size=1000):
        self.left, self.size, self.made, self.closed = count, size, 0, False

    def begin(self, more, drop):
        self.more, self.drop = more, drop

    def next(self):
        if self.left == 0:
            return None
        self.left -= 1
        self.made += 1
        return b"x" * self.size

    def close(self):
        self.closed = True


class Endless(Counted):
    """Pieces that come when a test says so."""

    def __init__(self):
        super().__init__(0)
        self.waiting = []

    def next(self):
        return self.waiting.pop(0) if self.waiting else b""


def serving(pieces, **server):
    return running_server(
        lambda request: (
            Response(200, (b"begin ",), pieces=pieces) if request.path == "/long" else Response(200, (b"ok",))
        ),
        **server,
    )


@contextlib.contextmanager
def get(port, path="/long", method="GET"):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)) as connection:
        connection.request(method, path)
        with connection.getresponse() as answer:
            yield connection, answer


def test_a_client_gets_all_of_it_and_the_next_answer_on_the_same_connection():
    pieces = Counted(500)
    with serving(pieces) as server, get(server.port) as (connection, answer):
        assert answer.read() == b"begin " + b"x" * 500_000
        assert pieces.closed
        connection.request("GET", "/short")
        assert connection.getresponse().read() == b"ok"


def test_the_head_alone_makes_no_piece():
    pieces = Counted(500)
    with serving(pieces) as server, get(server.port, method="HEAD") as (_, answer):
        assert (answer.status, answer.read(), pieces.made, pieces.closed) == (200, b"", 0, True)


def test_http_1_0_gets_it_until_the_connection_ends():
    with serving(Counted(3, 10)) as server, connect(server.port) as client:
        client.sendall(b"GET /long HTTP/1.0\r\nHost: localhost\r\n\r\n")
        assert read_to_end(client).endswith(b"\r\n\r\nbegin " + b"x" * 30)


def test_others_are_answered_meanwhile_and_who_does_not_read_is_dropped():
    pieces = Counted(100_000, 10_000)
    with serving(pieces, deadlines=Deadlines(answer=1.0)) as server, connect(server.port) as lazy:
        lazy.sendall(b"GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until(lambda: pieces.made > 0, "the first piece")
        with get(server.port, "/short") as (_, answer):
            assert answer.read() == b"ok"
        until(lambda: pieces.closed, "the end of the pieces")
        assert pieces.made < 2_000


def follows(server):
    until(lambda: server.statistics().connections[Phase.FOLLOWING] == 1, "a client that follows")


def test_who_follows_may_wait_longer_than_any_deadline_and_leave_at_any_time():
    pieces = Endless()
    with serving(pieces, deadlines=Deadlines(head=0.2, idle=0.2, answer=0.2)) as server:
        with get(server.port) as (_, answer):
            follows(server)
            time.sleep(0.6)  # longer than the deadlines
            pieces.waiting.append(b"new")
            server.call(_in_loop(pieces.more))
            assert answer.read(9) == b"begin new"
        until(lambda: pieces.closed, "the end of the pieces")


def test_who_follows_and_goes_on_asking_is_dropped():
    pieces = Endless()
    with serving(pieces) as server, connect(server.port) as client:
        client.sendall(b"GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n")
        follows(server)
        client.sendall(b"GET /short HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until(lambda: pieces.closed, "the end of the pieces")


def test_a_stream_ends_whole_when_the_server_does():
    pieces = Endless()
    with serving(pieces) as server, get(server.port) as (_, answer):
        follows(server)
        server.call(server.server.close())
        assert answer.read() == b"begin "
    assert pieces.closed


def test_what_breaks_off_does_not_look_whole():
    class Broken(Counted):
        def next(self):
            raise RuntimeError("a fault of the site")

    cut_off = pytest.raises((http.client.IncompleteRead, ConnectionError))
    with serving(Broken(1)) as server, get(server.port) as (_, answer), cut_off:
        answer.read()


async def _in_loop(work):
    work()
