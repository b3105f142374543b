"""How long the server waits for whom, and who has to go when there are too many."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest

from kits.web_server import connect, fetch, read_to_end, running_server, until
from telemetry_daemon.web.clients import Caller
from telemetry_daemon.web.messages import Request, Response
from telemetry_daemon.web.server.connection import WRITE_BYTES, Deadlines
from telemetry_daemon.web.server.crowd import Crowd, Standing

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
FAR = 1000.0


def drip(client: socket.socket, stop: threading.Event) -> int:
    """Send a header that never ends, a byte at a time; the number of bytes that were taken."""
    sent = 0
    with contextlib.suppress(OSError):  # the server hangs up at its limit
        client.sendall(b"GET / HTTP/1.1\r\nX: ")
        while not stop.wait(0.02):
            client.sendall(b"y")
            sent += 1
    return sent


def test_dripping_bytes_does_not_extend_the_time_for_a_request() -> None:
    deadlines = Deadlines(head=0.5, idle=FAR, answer=FAR)
    with running_server(deadlines=deadlines) as running, connect(running.port) as client:
        stop = threading.Event()
        dripping = threading.Thread(target=drip, args=(client, stop))
        dripping.start()
        said = read_to_end(client)
        stop.set()
        dripping.join()
    assert said.startswith(b"HTTP/1.1 408 Request Timeout\r\n")


def test_a_silent_client_is_hung_up_on() -> None:
    deadlines = Deadlines(head=0.3, idle=FAR, answer=FAR)
    with running_server(deadlines=deadlines) as running, connect(running.port) as client:
        assert read_to_end(client) == b""
        until(lambda: running.connections() == 0, "the end of the connection")


def test_an_idle_connection_is_closed_and_a_second_request_has_its_own_time() -> None:
    deadlines = Deadlines(head=0.5, idle=2.0, answer=FAR)
    with running_server(deadlines=deadlines) as running, connect(running.port) as client:
        client.sendall(REQUEST)
        assert client.recv(65536).startswith(b"HTTP/1.1 200")
        time.sleep(0.8)  # longer than a head may take, shorter than a pause may last
        client.sendall(REQUEST)
        assert client.recv(65536).startswith(b"HTTP/1.1 200")
        client.sendall(REQUEST[:10])
        assert client.recv(65536).startswith(b"HTTP/1.1 408")
        assert read_to_end(client) == b""
    with running_server(deadlines=Deadlines(head=FAR, idle=0.3)) as running, connect(running.port) as client:
        client.sendall(REQUEST)
        assert client.recv(65536).startswith(b"HTTP/1.1 200")
        assert read_to_end(client) == b""


def test_a_client_that_does_not_read_its_answer_is_dropped() -> None:
    page = b"x" * 50_000_000
    deadlines = Deadlines(head=FAR, idle=FAR, answer=0.5)
    server = running_server(lambda _: Response(200, (page,)), deadlines=deadlines)
    with server as running, connect(running.port) as client:
        client.sendall(REQUEST)
        until(lambda: running.standing("ANSWERING") == 1, "the answer begins")
        until(lambda: running.connections() == 0, "the client is dropped")
        assert len(read_to_end(client)) < len(page)


def test_a_slow_client_gets_all_of_a_page_larger_than_any_buffer() -> None:
    page = bytes(range(256)) * 100_000
    server = running_server(lambda _: Response(200, (page[:70_000], b"", page[70_000:])))
    with server as running, connect(running.port) as client:
        client.sendall(REQUEST + REQUEST.replace(b"GET", b"HEAD"))
        pieces = []
        while sum(map(len, pieces)) < len(page):
            pieces.append(client.recv(1_000_000))
            time.sleep(0.002)
        client.shutdown(socket.SHUT_WR)
        said = b"".join(pieces) + read_to_end(client)
    first, _, rest = said.partition(b"\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 200 OK")
    assert rest[: len(page)] == page
    assert rest[len(page) :].startswith(b"HTTP/1.1 200 OK\r\n")
    assert rest.endswith(b"\r\n\r\n")


def test_an_unread_answer_waits_in_pieces_and_is_never_copied_whole() -> None:
    page = b"x" * 20_000_000
    with running_server(lambda _: Response(200, (page,))) as running, connect(running.port) as client:
        client.sendall(REQUEST)
        until(lambda: running.standing("ANSWERING") == 1, "the answer begins")

        async def unsent() -> list[int]:
            (connection,) = running.server._house.crowd.everyone()
            return [connection._transport.get_write_buffer_size()]

        (waiting,) = running.call(unsent())
        assert 0 < waiting <= WRITE_BYTES


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
            released.wait(20)
        return Response(200, (b"",))

    with running_server(site) as running, connect(running.port) as bulk, connect(running.port) as other:
        bulk.sendall(b"".join(b"GET /bulk HTTP/1.1\r\nHost: localhost\r\n\r\n" for _ in range(400)))
        assert entered.wait(20)
        other.sendall(b"GET /other HTTP/1.1\r\nHost: localhost\r\n\r\n")
        released.set()
        assert other.recv(65536).startswith(b"HTTP/1.1 200")
        until(lambda: len(served) == 401, "all answers")
    assert served.index("/other") < 10


def test_too_many_silent_clients_cost_the_oldest_of_them() -> None:
    with running_server(deadlines=Deadlines(head=FAR)) as running, contextlib.ExitStack() as clients:
        silent = [clients.enter_context(connect(running.port)) for _ in range(300)]
        assert fetch(running.port).status == 200
        until(lambda: running.standing("UNFINISHED") <= 256, "evictions")
        oldest, newest = silent[:44], silent[-256:]
        assert [client.recv(1) for client in oldest] == [b""] * 44
        for client in newest[1:]:  # one of them made room for the scrape
            client.sendall(REQUEST)
        assert [client.recv(17)[:12] for client in newest[1:]] == [b"HTTP/1.1 200"] * 255


def test_silent_clients_do_not_cost_a_kept_connection() -> None:
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


class Guest:
    """A member of a crowd that remembers what became of it."""

    def __init__(self, client: str = "somebody") -> None:
        self.aborted = 0
        self.caller = Caller(client, None)

    def abort(self) -> None:
        self.aborted += 1

    def finish(self) -> None:
        raise AssertionError("nobody asked for that")


def crowd_of(most: int, standings: list[Standing]) -> tuple[Crowd, list[Guest]]:
    crowd, guests = Crowd(most), [Guest() for _ in standings]
    for guest, standing in zip(guests, standings, strict=True):
        crowd.admit(guest)
        crowd.move(guest, Standing.UNFINISHED, standing)
    return crowd, guests


@pytest.mark.parametrize(
    ("standings", "victim"),
    [
        ([Standing.ANSWERING, Standing.WAITING, Standing.WAITING, Standing.LEAVING], 3),
        ([Standing.ANSWERING, Standing.WAITING, Standing.WAITING, Standing.ANSWERING], 1),
    ],
)
def test_who_is_missed_least_goes_first(standings: list[Standing], victim: int) -> None:
    crowd, guests = crowd_of(4, standings)
    guests.append(Guest())
    crowd.admit(guests[-1])
    assert [number for number, guest in enumerate(guests) if guest.aborted] == [victim]
    assert len(crowd) == 4


def test_an_empty_crowd_has_nobody_to_evict() -> None:
    assert not Crowd().evict_one()


def test_of_too_many_who_do_not_take_their_answer_the_oldest_goes() -> None:
    _, guests = crowd_of(6, [Standing.WAITING, *[Standing.ANSWERING] * 5])
    assert [guest.aborted for guest in guests] == [0, 1, 1, 0, 0, 0]


def test_the_unfinished_never_take_more_than_half_of_a_small_crowd() -> None:
    crowd = Crowd(10)
    for _ in range(20):
        crowd.admit(Guest())
    assert crowd.count(Standing.UNFINISHED) == 5
    assert crowd.evicted == 15


def test_who_brings_too_many_costs_others_nothing() -> None:
    crowd = Crowd(20)
    mob, honest = [Guest("mob") for _ in range(100)], [Guest(f"honest {number}") for number in range(3)]
    for position, guest in enumerate(mob):
        crowd.admit(guest)
        if position % 30 == 20:
            crowd.admit(honest[position // 30])
    assert [guest.aborted for guest in honest] == [0, 0, 0]
    assert [guest.aborted for guest in mob] == [1] * 93 + [0] * 7


def test_among_many_with_few_the_oldest_of_all_goes() -> None:
    crowd, guests = Crowd(20), [Guest(f"client {number}") for number in range(30)]
    for guest in guests:
        crowd.admit(guest)
    assert [guest.aborted for guest in guests] == [1] * 20 + [0] * 10
