"""A response in pieces: complete for a client that reads, dropped for one that does not, without delay for others."""

import contextlib
import http.client

import pytest

from kits.waiting import until
from kits.web_server import PATIENCE_SECONDS, basic, cheap_hash, connect, read_to_end, replace, running_server
from telemetry_daemon.web.messages import Response
from telemetry_daemon.web.server.open_connections import Phase


class Counted:
    """A fixed number of pieces; counts the pieces made so far."""

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
    """Pieces that a test supplies."""

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
def get(port, path="/long", method="GET", tls=None, headers=None):
    where = ("127.0.0.1", port)
    made = (
        http.client.HTTPConnection(*where, timeout=PATIENCE_SECONDS)
        if tls is None
        else http.client.HTTPSConnection(*where, timeout=PATIENCE_SECONDS, context=tls)
    )
    with contextlib.closing(made) as connection:
        connection.request(method, path, headers=headers or {})
        with connection.getresponse() as answer:
            yield connection, answer


def test_client_gets_the_whole_answer_and_the_next_on_one_connection():
    pieces = Counted(500)
    with serving(pieces) as server, get(server.port) as (connection, answer):
        assert answer.read() == b"begin " + b"x" * 500_000
        assert pieces.closed
        connection.request("GET", "/short")
        assert connection.getresponse().read() == b"ok"


def test_head_request_renders_no_piece():
    pieces = Counted(500)
    with serving(pieces) as server, get(server.port, method="HEAD") as (_, answer):
        assert (answer.status, answer.read(), pieces.made, pieces.closed) == (200, b"", 0, True)


def test_http_1_0_gets_it_until_the_connection_ends():
    with serving(Counted(3, 10)) as server, connect(server.port) as client:
        client.sendall(b"GET /long HTTP/1.0\r\nHost: localhost\r\n\r\n")
        assert read_to_end(client).endswith(b"\r\n\r\nbegin " + b"x" * 30)


def test_clients_that_do_not_read_are_dropped_without_delay_for_others():
    pieces = Counted(100_000, 10_000)
    with serving(pieces) as server, connect(server.port) as lazy:
        lazy.sendall(b"GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until(lambda: pieces.made > 0, "the first piece")
        with get(server.port, "/short") as (_, answer):
            assert answer.read() == b"ok"
        until(lambda: server.pass_time(31.0) or pieces.closed, "the end of the pieces")
        assert pieces.made < 2_000


def follows(server):
    until(lambda: server.statistics().connections[Phase.STREAMING] == 1, "a client that follows")


def test_stream_may_last_longer_than_any_deadline():
    pieces = Endless()
    with serving(pieces) as server:
        with get(server.port) as (_, answer):
            follows(server)
            server.pass_time(1000.0)
            pieces.waiting.append(b"new")
            server.call(_in_loop(pieces.more))
            assert answer.read(9) == b"begin new"
        until(lambda: pieces.closed, "the end of the pieces")


def test_client_that_sends_requests_during_a_stream_is_dropped():
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


def test_broken_answer_does_not_look_complete():
    class Broken(Counted):
        def next(self):
            raise RuntimeError("a fault of the site")

    cut_off = pytest.raises((http.client.IncompleteRead, ConnectionError))
    with serving(Broken(1)) as server, get(server.port) as (_, answer), cut_off:
        answer.read()


async def _in_loop(work):
    work()


def test_it_comes_through_tls_in_every_version_of_http(pki, web_file):
    config = web_file(pki.tls_section())
    with (
        serving(Counted(3, 100_000), config_file=config) as server,
        get(server.port, tls=pki.trusting()) as (_, answer),
    ):
        assert answer.read() == b"begin " + b"x" * 300_000
    with (
        serving(Counted(3, 10), config_file=config) as server,
        connect(server.port) as client,
        pki.trusting().wrap_socket(client, server_hostname="localhost") as encrypted,
    ):
        encrypted.sendall(b"GET /long HTTP/1.0\r\nHost: localhost\r\n\r\n")
        assert read_to_end(encrypted).endswith(b"\r\n\r\nbegin " + b"x" * 30)


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
def test_a_client_that_hangs_up_is_noticed_at_once(pki, web_file, encrypted):
    pieces = Endless()
    config, tls = web_file(pki.tls_section() if encrypted else ""), pki.trusting() if encrypted else None
    with serving(pieces, config_file=config) as server:
        with get(server.port, tls=tls):
            follows(server)
        until(lambda: pieces.closed, "the end of the pieces")


NEW_TERMS = {
    "another user": lambda pki: f"basic_auth_users:\n  bob: {cheap_hash('secret')}\n",
    "another password": lambda pki: f"basic_auth_users:\n  alice: {cheap_hash('other')}\n",
    "TLS": lambda pki: pki.tls_section() + f"basic_auth_users:\n  alice: {cheap_hash('secret')}\n",
    "a bad file": lambda pki: "unknown: 1\n",
}


@pytest.mark.parametrize("new", NEW_TERMS)
def test_stream_ends_if_access_rules_change(pki, web_file, new):
    pieces = Endless()
    config = web_file(f"basic_auth_users:\n  alice: {cheap_hash('secret')}\n")
    with (
        serving(pieces, config_file=config) as server,
        get(server.port, headers=basic("alice", "secret")) as (_, answer),
    ):
        follows(server)
        replace(config, NEW_TERMS[new](pki))
        pieces.waiting.append(b"secret")

        def ended():
            server.call(_in_loop(pieces.more))
            pieces.waiting.append(b"more")
            return pieces.closed

        until(ended, "the end of the pieces")
        assert b"begin " in answer.read()  # it ends whole


def test_changed_headers_and_limits_do_not_end_streams(web_file):
    pieces = Endless()
    with serving(pieces, config_file=web_file("")) as server, get(server.port) as (_, answer):
        follows(server)
        replace(web_file(""), "rate_limit: {interval: 1h, burst: 3}\n")

        def limited():
            with get(server.port, "/short") as (_, other):
                return other.status == 429

        until(limited, "the new limit")
        pieces.waiting.append(b"new")
        server.call(_in_loop(pieces.more))
        assert answer.read(9) == b"begin new"


def test_slow_client_gets_the_whole_answer_while_it_reads(pki, web_file):
    pieces, passed = Counted(200, 50_000), 0.0
    config = web_file(pki.tls_section())
    with serving(pieces, config_file=config) as server, get(server.port, tls=pki.trusting()) as (_, answer):
        got, made = b"", pieces.made
        while piece := answer.read(100_000):
            got += piece
            if pieces.made > made:  # the deadline of a piece is 30 seconds
                server.pass_time(20.0)
                passed, made = passed + 20.0, pieces.made
    assert got == b"begin " + b"x" * 10_000_000
    assert passed > 60.0
