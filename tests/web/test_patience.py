"""How long the server waits for clients, and which clients it drops if there are too many."""

import asyncio
import contextlib
import select
import socket
import threading
import time
from asyncio import Transport
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import bcrypt
import pytest

from kits.waiting import until
from kits.web_server import basic, connect, fetch, read_to_end, running_server
from telemetry_daemon.web.access.access_control import AccessControl, load_config
from telemetry_daemon.web.clients import Caller
from telemetry_daemon.web.messages import Handler, Request, Response
from telemetry_daemon.web.server.connection import Connection
from telemetry_daemon.web.server.open_connections import WRITE_BYTES, Deadlines, OpenConnections, Phase, SharedState

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
FAR = 1000.0


def has_answer(client: socket.socket) -> bool:
    return bool(select.select([client], [], [], 0)[0])


def test_dripping_bytes_does_not_extend_the_time_for_a_request() -> None:
    with running_server(deadlines=Deadlines(head=100.0)) as running, connect(running.port) as client:
        client.sendall(b"GET / HTTP/1.1\r\nX: ")
        until(lambda: running.connections(Phase.UNFINISHED) == 1, "the connection")
        for _ in range(4):
            running.pass_time(30.0)
            client.sendall(b"y")
        assert read_to_end(client).startswith(b"HTTP/1.1 408 Request Timeout\r\n")


def test_a_silent_client_is_hung_up_on() -> None:
    with running_server() as running, connect(running.port) as client:
        until(lambda: running.connections() == 1, "the connection")
        running.pass_time(5.1)
        assert read_to_end(client) == b""
        until(lambda: running.connections() == 0, "the end of the connection")


def test_idle_connection_is_closed_and_each_request_has_its_own_deadline() -> None:
    with running_server(deadlines=Deadlines(head=100.0, idle=1e6)) as running, connect(running.port) as client:
        client.sendall(REQUEST)
        assert client.recv(65536).startswith(b"HTTP/1.1 200")
        running.pass_time(500.0)
        client.sendall(REQUEST)
        assert client.recv(65536).startswith(b"HTTP/1.1 200")
        client.sendall(REQUEST[:10])
        until(lambda: running.pass_time(101.0) or has_answer(client), "a refusal")
        assert client.recv(65536).startswith(b"HTTP/1.1 408")
        assert read_to_end(client) == b""
    with running_server(deadlines=Deadlines(head=FAR)) as running, connect(running.port) as client:
        client.sendall(REQUEST)
        assert client.recv(65536).startswith(b"HTTP/1.1 200")
        until(lambda: running.pass_time(61.0) or has_answer(client), "the end")
        assert read_to_end(client) == b""


def test_a_client_that_does_not_read_its_answer_is_dropped() -> None:
    page = b"x" * 50_000_000
    with running_server(lambda _: Response(200, (page,))) as running, connect(running.port) as client:
        client.sendall(REQUEST)
        until(lambda: running.connections(Phase.RESPONDING) == 1, "the answer begins")
        running.pass_time(31.0)
        until(lambda: running.connections() == 0, "the client is dropped")
        assert len(read_to_end(client)) < len(page)


def test_a_slow_client_gets_all_of_a_page_larger_than_any_buffer() -> None:
    page = bytes(range(256)) * 100_000
    server = running_server(lambda _: Response(200, (page[:70_000], b"", page[70_000:])))
    with server as running, connect(running.port) as client:
        client.sendall(REQUEST + REQUEST.replace(b"GET", b"HEAD"))
        pieces = []
        while sum(map(len, pieces)) < len(page):
            pieces.append(client.recv(20_000))
        client.shutdown(socket.SHUT_WR)
        received = b"".join(pieces) + read_to_end(client)
    first, _, rest = received.partition(b"\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 200 OK")
    assert rest[: len(page)] == page
    assert rest[len(page) :].startswith(b"HTTP/1.1 200 OK\r\n")
    assert rest.endswith(b"\r\n\r\n")


def test_an_answer_waits_for_few_of_those_that_others_request_at_once() -> None:
    answered = []

    def answer(request: Request) -> Response:
        if request.path == "/slow":
            answered.append(request)
            time.sleep(0.002)
        return Response(200, (b"x",))

    with running_server(answer) as running, contextlib.ExitStack() as others:
        for _ in range(40):
            others.enter_context(connect(running.port, "127.0.0.2")).sendall(REQUEST.replace(b"/ ", b"/slow ") * 100)
        until(lambda: len(answered) > 200, "the answers")
        before = len(answered)
        assert fetch(running.port).status == 200
        assert len(answered) - before < 40


@contextlib.asynccontextmanager
async def connected(
    handler: Handler, access: AccessControl
) -> AsyncIterator[tuple[Connection, Transport, socket.socket]]:
    """Yield a connection without a server, its transport, and the client's socket."""
    loop = asyncio.get_running_loop()
    ours, client = socket.socketpair()
    shared = SharedState(handler, access, OpenConnections(), Deadlines())
    with client:
        client.settimeout(0)
        transport, connection = await loop.connect_accepted_socket(lambda: Connection(shared), ours)
        yield connection, transport, client
        transport.abort()
        await asyncio.sleep(0)


async def soon(condition: Callable[[], int]) -> None:
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0)


def test_an_unread_answer_waits_in_pieces_and_is_never_copied_whole() -> None:
    async def unsent_bytes() -> int:
        response = Response(200, (b"x" * 20_000_000,))
        async with connected(lambda _: response, AccessControl(load_config(""))) as (_, transport, client):
            await asyncio.get_running_loop().sock_sendall(client, REQUEST)
            await soon(transport.get_write_buffer_size)
            return transport.get_write_buffer_size()

    assert 0 < asyncio.run(unsent_bytes()) <= WRITE_BYTES


def test_a_client_that_finishes_sending_and_reads_slowly_causes_no_error(caplog: pytest.LogCaptureFixture) -> None:
    page = b"x" * 6_000_000
    with running_server(lambda _: Response(200, (page,))) as running:
        for _ in range(10):
            with connect(running.port) as client:
                client.sendall(REQUEST[:-2] + b"Connection: close\r\n\r\n")
                assert client.recv(15) == b"HTTP/1.1 200 OK"
                client.shutdown(socket.SHUT_WR)
                assert read_to_end(client).endswith(page)
        until(lambda: running.connections() == 0, "the end of the connections")
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


def test_a_full_send_buffer_while_a_password_is_checked_does_not_end_the_connection(tmp_path: Path) -> None:
    file = tmp_path / "web.yml"
    file.write_text(f"basic_auth_users:\n  alice: {bcrypt.hashpw(b'secret', bcrypt.gensalt(8)).decode()}\n")
    login = f"Authorization: {basic('alice', 'secret')['Authorization']}\r\n\r\n".encode()

    async def answer() -> bytes:
        access = AccessControl(load_config(str(file)))
        async with connected(lambda _: Response(200, (b"ok",)), access) as (connection, _, client):
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(client, REQUEST[:-2] + login)
            await soon(lambda: access.waiting_for_password_check)
            connection.pause_writing()
            connection.resume_writing()
            answer = await loop.sock_recv(client, 65536)
            await access.close()
            return answer

    assert asyncio.run(answer()).startswith(b"HTTP/1.1 200")


def test_a_client_that_sends_for_ever_after_a_refusal_is_dropped() -> None:
    with running_server(deadlines=Deadlines(linger=FAR)) as running, connect(running.port) as client:
        client.sendall(b"garbage\r\n\r\n")
        sent = 0
        with contextlib.suppress(OSError):  # the server hangs up at its limit
            while sent < 100_000_000:
                sent += client.send(b"x" * 100_000)
        assert sent < 100_000_000


def test_one_client_with_many_requests_does_not_hold_up_another() -> None:
    entered, released = threading.Event(), threading.Event()
    served: list[str] = []

    def site(request: Request) -> Response:
        served.append(request.path)
        if not entered.is_set():
            entered.set()
            released.wait(60)
        return Response(200, (b"",))

    with running_server(site) as running, connect(running.port) as bulk, connect(running.port) as other:
        bulk.sendall(b"".join(b"GET /bulk HTTP/1.1\r\nHost: localhost\r\n\r\n" for _ in range(400)))
        assert entered.wait(60)
        other.sendall(b"GET /other HTTP/1.1\r\nHost: localhost\r\n\r\n")
        released.set()
        assert other.recv(65536).startswith(b"HTTP/1.1 200")
        until(lambda: len(served) == 401, "all answers")
    assert served.index("/other") < 10


def test_oldest_of_too_many_silent_clients_is_dropped() -> None:
    with running_server(deadlines=Deadlines(head=FAR)) as running, contextlib.ExitStack() as clients:
        silent = [clients.enter_context(connect(running.port)) for _ in range(300)]
        assert fetch(running.port).status == 200
        until(lambda: running.connections(Phase.UNFINISHED) <= 256, "evictions")
        oldest, newest = silent[:44], silent[-256:]
        assert [client.recv(1) for client in oldest] == [b""] * 44
        for client in newest[1:]:  # one of them made room for the scrape
            client.sendall(REQUEST)
        assert [client.recv(17)[:12] for client in newest[1:]] == [b"HTTP/1.1 200"] * 255


def test_silent_clients_do_not_displace_a_kept_connection() -> None:
    with running_server(deadlines=Deadlines(head=FAR)) as running, contextlib.ExitStack() as clients:
        kept = clients.enter_context(connect(running.port))
        kept.sendall(REQUEST)
        assert kept.recv(65536).startswith(b"HTTP/1.1 200")
        for _ in range(700):
            clients.enter_context(connect(running.port))
        kept.sendall(REQUEST)
        assert kept.recv(65536).startswith(b"HTTP/1.1 200")


def test_there_are_never_more_than_512_connections() -> None:
    with running_server(deadlines=Deadlines(head=FAR, idle=FAR)) as running, contextlib.ExitStack() as clients:
        for _ in range(600):
            client = clients.enter_context(connect(running.port))
            client.sendall(REQUEST)
            assert client.recv(17).startswith(b"HTTP/1.1 200")
        assert running.connections() <= 512
        assert fetch(running.port).status == 200


class FakeConnection:
    """A connection that counts how often it was dropped."""

    def __init__(self, client: str = "somebody") -> None:
        self.aborted = 0
        self.caller = Caller(client, None)

    def abort(self) -> None:
        self.aborted += 1

    def finish(self) -> None:
        raise AssertionError("unexpected call")


RESPONDING, WAITING, UNFINISHED = Phase.RESPONDING, Phase.WAITING, Phase.UNFINISHED


@pytest.mark.parametrize(
    ("most", "phases", "aborted"),
    [
        pytest.param(
            4, [RESPONDING, WAITING, WAITING, Phase.CLOSING, UNFINISHED], [0, 0, 0, 1, 0], id="one that leaves"
        ),
        pytest.param(4, [RESPONDING, WAITING, WAITING, RESPONDING, UNFINISHED], [0, 1, 0, 0, 0], id="one that waits"),
        pytest.param(6, [WAITING, *[RESPONDING] * 5], [0, 1, 1, 0, 0, 0], id="responses that are not read"),
        pytest.param(10, [UNFINISHED] * 20, [1] * 15 + [0] * 5, id="the unfinished have half of the places"),
    ],
)
def test_of_too_many_connections_the_oldest_of_those_that_do_least_is_dropped(
    most: int, phases: list[Phase], aborted: list[int]
) -> None:
    limited, connections = OpenConnections(most), [FakeConnection() for _ in phases]
    for connection, phase in zip(connections, phases, strict=True):
        limited.add(connection)
        limited.move(connection, UNFINISHED, phase)
    assert [connection.aborted for connection in connections] == aborted
    assert len(limited) == len(phases) - sum(aborted)
    assert not OpenConnections().evict_oldest()


def test_client_with_too_many_connections_displaces_no_others() -> None:
    limited = OpenConnections(20)
    attacker = [FakeConnection("attacker") for _ in range(100)]
    honest = [FakeConnection(f"honest {number}") for number in range(3)]
    for position, connection in enumerate(attacker):
        limited.add(connection)
        if position % 30 == 20:
            limited.add(honest[position // 30])
    assert [connection.aborted for connection in honest] == [0, 0, 0]
    assert [connection.aborted for connection in attacker] == [1] * 93 + [0] * 7


def test_among_many_clients_with_few_connections_the_oldest_of_all_goes() -> None:
    limited, connections = OpenConnections(20), [FakeConnection(f"client {number}") for number in range(30)]
    for connection in connections:
        limited.add(connection)
    assert [connection.aborted for connection in connections] == [1] * 20 + [0] * 10
