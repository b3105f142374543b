"""HTTP as clients see it: good and bad requests in sequence, any bytes, and the site's own mistakes."""

import contextlib
import email.utils
import http.client
import logging
import socket
import ssl
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kits.attackers import converse
from kits.web_server import Pki, RunningServer, connect, exchange, fetch, read_to_end, running_server
from telemetry_daemon.web.messages import Request, Response

PAGE = b"".join(b'accelerator_power_watts{device="%d"} %d\n' % (number, number) for number in range(5000))


def site(request: Request) -> Response:
    if request.path == "/boom":
        raise RuntimeError("no page today")
    if request.path == "/forbidden-header":
        return Response(200, (b"ok\n",), headers=(("X-Bad", "two\r\nlines"),))
    if request.path == "/odd":
        return Response(299, (b"odd",))
    if request.path == "/empty":
        return Response(204, (b"",))
    if request.path == "/page":
        return Response(200, (PAGE[:1000], PAGE[1000:]), "text/plain; version=0.0.4", (("Vary", "Accept"),))
    if request.path == "/accept":
        return Response(200, (request.headers.get("accept", "").encode(),))
    return Response(200, (f"{request.method} {request.path}?{request.query}".encode(),))


@pytest.fixture(scope="module")
def running() -> Iterator[RunningServer]:
    with running_server(site) as server:
        yield server


def head(*lines: str) -> bytes:
    return "\r\n".join((*lines, "", "")).encode()


def test_a_page_comes_whole_with_its_type_length_and_date(running: RunningServer) -> None:
    reply = fetch(running.port, "/page")
    assert (reply.status, reply.body) == (200, PAGE)
    assert reply.headers["content-type"] == "text/plain; version=0.0.4"
    assert reply.headers["content-length"] == str(len(PAGE))
    assert reply.headers["vary"] == "Accept"
    assert "server" not in reply.headers
    assert abs(email.utils.parsedate_to_datetime(reply.headers["date"]).timestamp() - time.time()) < 60


def test_head_gives_the_same_headers_and_no_body(running: RunningServer) -> None:
    get, head_only = fetch(running.port, "/page"), fetch(running.port, "/page", method="HEAD")
    assert head_only.body == b""
    assert {**head_only.headers, "date": ""} == {**get.headers, "date": ""}


@pytest.mark.parametrize(
    ("target", "path_and_query"),
    [
        ("/metrics", "/metrics?"),
        ("/metrics?name[]=up&x=%20", "/metrics?name[]=up&x=%20"),
        ("/%6detrics", "/metrics?"),
        ("/a?b?c", "/a?b?c"),
        ("http://localhost/metrics?x=1", "/metrics?x=1"),
        ("http://localhost", "/?"),
        ("HTTPS://localhost?x=1", "/?x=1"),
    ],
)
def test_path_and_query(running: RunningServer, target: str, path_and_query: str) -> None:
    received = exchange(running.port, head(f"GET {target} HTTP/1.1", "Host: localhost"))
    assert received.startswith(b"HTTP/1.1 200 OK\r\n")
    assert received.endswith(f"\r\n\r\nGET {path_and_query}".encode())


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"garbage\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"\x00" * 100, 400),
        (head("GET / HTTP/1.1"), 400),
        (head("GET / HTTP/1.1", "Host: localhost", "Host: localhost"), 400),
        (head("GET / HTTP/1.1", "Host: localhost", "no colon"), 400),
        (head("GET / HTTP/1.1", "Host: localhost", "Content-Length: x"), 400),
        (head("GET metrics HTTP/1.1", "Host: localhost"), 400),
        (head("GET ftp://x/ HTTP/1.1", "Host: localhost"), 400),
        (head("GET / HTTP/3.0", "Host: localhost"), 505),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (head("GET / HTTP/1.1", "Host: localhost", "Content-Length: 3") + b"abc", 413),
        (head("GET / HTTP/1.1", "Host: localhost", "Content-Length: 99999999999"), 413),
        (head("HEAD / HTTP/1.1", "Host: localhost", "Content-Length: 3") + b"abc", 413),
        (head("GET / HTTP/1.1", "Host: localhost", "Transfer-Encoding: chunked") + b"0\r\n\r\n", 413),
        (head("GET / HTTP/1.1", "Host: localhost", "Transfer-Encoding: gzip"), 501),
        (head("POST / HTTP/1.1", "Host: localhost", "Content-Length: 3") + b"abc", 405),
        (head("GET / HTTP/1.1", "Host: localhost", "X: " + "y" * 17000), 431),
        (head("GET / HTTP/1.1", "Host: localhost", *(f"X-{number}: {'y' * 100}" for number in range(160))), 431),
        (head(f"GET /{'y' * 17000} HTTP/1.1", "Host: localhost"), 431),
        (b"G" * 20000, 431),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n", 400),
    ],
)
def test_bad_requests_are_refused_and_the_connection_closed(
    running: RunningServer, request_bytes: bytes, status: int
) -> None:
    with connect(running.port) as client:
        client.sendall(request_bytes)
        if status == 400:
            client.shutdown(1)  # some of these could still become a request
        received = read_to_end(client)
    assert received.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"\r\nConnection: close\r\n" in received
    assert received.count(b"HTTP/1.1 ") == 1
    assert fetch(running.port).status == 200


@pytest.mark.parametrize(
    ("lines", "begin", "end"),
    [
        (("GET / HTTP/1.1", "Host: localhost", "X: " + "y" * 16000), b"HTTP/1.1 200 OK\r\n", b"GET /?"),
        (
            ("GET /accept HTTP/1.1", "Host: localhost", "Accept: a", "ACCEPT: b"),
            b"HTTP/1.1 200 OK\r\n",
            b"\r\n\r\na, b",
        ),
        (("GET /odd HTTP/1.1", "Host: localhost"), b"HTTP/1.1 299 \r\n", b"odd"),
    ],
    ids=["a head of 16 KiB", "headers given twice are joined", "a status without a name"],
)
def test_unusual_requests_are_served(running: RunningServer, lines: tuple[str, ...], begin: bytes, end: bytes) -> None:
    received = exchange(running.port, head(*lines))
    assert received.startswith(begin)
    assert received.endswith(end)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW", "get"])
def test_other_methods_are_refused_and_the_connection_stays_open(running: RunningServer, method: str) -> None:
    target = "x:1" if method == "CONNECT" else "*" if method == "OPTIONS" else "/"
    received = exchange(
        running.port,
        head(f"{method} {target} HTTP/1.1", "Host: localhost"),
        head("GET /next HTTP/1.1", "Host: localhost"),
    )
    assert received.startswith(b"HTTP/1.1 405 Method Not Allowed\r\n")
    assert b"\r\nAllow: GET, HEAD\r\n" in received
    assert received.endswith(b"GET /next?")


def test_pipelined_requests_are_answered_in_order(running: RunningServer) -> None:
    numbers = range(300)
    received = exchange(
        running.port, b"".join(head(f"GET /{number} HTTP/1.1", "Host: localhost") for number in numbers)
    )
    assert received.count(b"HTTP/1.1 200 OK") == len(numbers)
    positions = [received.index(b"GET /%d?" % number) for number in numbers]
    assert positions == sorted(positions)


def test_a_connection_carries_many_requests(running: RunningServer) -> None:
    client = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
    client.connect()
    local = client.sock.getsockname()
    for number in range(20):
        client.request("GET" if number % 2 else "HEAD", f"/{number}")
        client.getresponse().read()
        assert client.sock.getsockname() == local
    client.close()


@pytest.mark.parametrize(
    "request_head",
    [head("GET / HTTP/1.0"), head("GET / HTTP/1.1", "Host: localhost", "Connection: close")],
)
def test_the_server_hangs_up_where_the_client_wants_it(running: RunningServer, request_head: bytes) -> None:
    with connect(running.port) as client:
        client.sendall(request_head)
        received = read_to_end(client)
    assert received.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nConnection: close\r\n" in received
    assert received.endswith(b"GET /?")


def test_a_request_in_single_bytes_is_one_request(running: RunningServer) -> None:
    request = head("GET /slow HTTP/1.1", "Host: localhost")
    received = exchange(running.port, *(request[at : at + 1] for at in range(len(request))), pause_seconds=0.001)
    assert received.endswith(b"GET /slow?")


def test_expectations_and_upgrades_are_answered_plainly(running: RunningServer) -> None:
    received = exchange(
        running.port,
        head("GET /1 HTTP/1.1", "Host: localhost", "Expect: 100-continue"),
        head(
            "GET /2 HTTP/1.1",
            "Host: localhost",
            "Connection: Upgrade, HTTP2-Settings",
            "Upgrade: h2c",
            "HTTP2-Settings: AA",
        ),
        head("GET /3 HTTP/1.1", "Host: localhost"),
    )
    assert [received.count(f"GET /{number}?".encode()) for number in (1, 2, 3)] == [1, 1, 1]


def test_an_answer_without_content_has_no_length(running: RunningServer) -> None:
    reply = fetch(running.port, "/empty")
    assert (reply.status, reply.body) == (204, b"")
    assert "content-length" not in reply.headers


@pytest.mark.parametrize(
    ("path", "logged"),
    [("/boom", "RuntimeError: no page today"), ("/forbidden-header", "the site returned an invalid HTTP response")],
)
def test_exception_of_the_site_fails_one_request_only(
    running: RunningServer, caplog: pytest.LogCaptureFixture, path: str, logged: str
) -> None:
    with caplog.at_level(logging.ERROR):
        received = exchange(
            running.port,
            head(f"GET {path} HTTP/1.1", "Host: localhost"),
            head("GET /after HTTP/1.1", "Host: localhost"),
        )
    assert received.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    assert received.endswith(b"GET /after?")
    assert logged in caplog.text
    assert b"no page today" not in received


def test_a_refusal_reaches_a_client_that_is_still_sending(running: RunningServer) -> None:
    with connect(running.port) as client:
        client.sendall(head("POST /upload HTTP/1.1", "Host: localhost", "Content-Length: 900000") + b"x" * 900_000)
        assert read_to_end(client).startswith(b"HTTP/1.1 405 ")


WORDS = (
    b"GET |HEAD |POST |/|/metrics|?name[]=x| HTTP/1.1| HTTP/1.0| HTTP/9.9|\r\n|\n|\r\n\r\n|Host: localhost\r\n|Content-Length: 5\r\n"
    b"|Content-Length: -1\r\n|hello|Transfer-Encoding: chunked\r\n|Connection: close\r\n|Upgrade: h2c\r\n|: \r\n|\x00|\xff"
    b"|GET / HTTP/1.1\r\nHost: localhost\r\n\r\n|HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n|Expect: 100-continue\r\n"
    b"|Authorization: Basic YTpi\r\n| folded\r\n|\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03"
).split(b"|")
INPUTS = st.lists(st.one_of(st.binary(max_size=40), st.sampled_from([*WORDS, b"x" * 5000])), max_size=25)


@pytest.fixture(scope="module", params=["plain", "tls"])
def port_and_tls(
    request: pytest.FixtureRequest, pki: Pki, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[int, ssl.SSLContext | None]]:
    file = tmp_path_factory.mktemp("fuzz") / "web.yml"
    tls = pki.trusting() if request.param == "tls" else None
    file.write_text(pki.tls_section() if tls else "")
    with running_server(config_file=file) as running:
        yield running.port, tls


@settings(max_examples=60, deadline=None)
@given(pieces=INPUTS)
def test_any_bytes_leave_the_server_able_to_answer(
    port_and_tls: tuple[int, ssl.SSLContext | None], pieces: list[bytes]
) -> None:
    port, tls = port_and_tls
    # Hanging up on garbage is a valid answer.
    with connect(port) as client, contextlib.suppress(ConnectionResetError, BrokenPipeError):
        for piece in pieces:
            client.sendall(piece)
        client.shutdown(socket.SHUT_WR)
        received = read_to_end(client)
        assert received == b"" or received.startswith((b"HTTP/1.1 ", b"\x15\x03", b"\x16\x03"))
    assert fetch(port, tls=tls).status == 200


@settings(max_examples=50, deadline=None)
@given(cut=st.integers(0, 600), junk=st.binary(max_size=200))
def test_any_bytes_after_a_truncated_client_hello_are_refused(pki: Pki, cut: int, junk: bytes) -> None:
    from telemetry_daemon.web.access.tls import TlsChannel, server_context
    from telemetry_daemon.web.access.toolkit import Pem, TlsConfig
    from telemetry_daemon.web.messages import HandshakeError

    config = TlsConfig(Pem("cert_file", str(pki.server.certificate)), Pem("key_file", str(pki.server.key)))
    channel = TlsChannel(server_context(config, "web.yml"), lambda _: "")
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):  # only its first message is needed
        pki.trusting().wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    with contextlib.suppress(HandshakeError):  # a refusal is a good answer
        for piece in (outgoing.read()[:cut], junk):
            assert channel.receive(piece).data == b""


@settings(max_examples=150, deadline=None)
@given(pieces=INPUTS)
def test_a_conversation_gives_requests_refusals_or_an_end_and_never_breaks(pieces: list[bytes]) -> None:
    answered, ended = converse(pieces)
    # A conversation may end before the end of any line.
    assert answered <= b"".join(pieces).count(b"\n") + ended
