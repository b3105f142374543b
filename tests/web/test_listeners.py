"""Listen addresses: their syntax, the errors when one cannot be used, and changing them while serving."""

import contextlib
import http.client
import os
import socket
import threading
from pathlib import Path

import pytest

from kits.ports import free_port
from kits.waiting import until
from kits.web_server import LOOPBACK, connect, echo, fetch, read_to_end, running_server
from telemetry_daemon.web.addresses import TcpAddress, UnixAddress, WebError, parse_address
from telemetry_daemon.web.messages import Request, Response
from telemetry_daemon.web.server.open_connections import Phase
from telemetry_daemon.web.server.web_server import WebServer
from web.scraper import Scraper


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:19820", TcpAddress("127.0.0.1", 19820)),
        (":9100", TcpAddress("", 9100)),
        ("[::1]:9100", TcpAddress("::1", 9100)),
        ("[fe80::1%eth0]:80", TcpAddress("fe80::1%eth0", 80)),
        ("localhost:0", TcpAddress("localhost", 0)),
        ("unix:/run/telemetry/web.sock", UnixAddress("/run/telemetry/web.sock")),
        ("unix:///run/web.sock", UnixAddress("/run/web.sock")),
    ],
)
def test_addresses_are_parsed(text: str, address: object) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("9100", r"'9100' is not a listen address; write HOST:PORT"),
        ("", "is not a listen address"),
        (":http", "is not a listen address"),
        ("::1:9100", "is not a listen address"),
        ("[]:9100", "the brackets are empty"),
        ("127.0.0.1:65536", "the port must be at most 65535"),
        ("127.0.0.1:-1", "is not a listen address"),
        ("vsock://:9100", "vsock addresses are not supported"),
        ("unix:web.sock", "needs an absolute path"),
        ("unix:/" + "x" * 120, "longer than 107 bytes"),
        ("http://127.0.0.1:9100", "is not a listen address"),
    ],
)
def test_bad_addresses_are_refused_with_a_remedy(text: str, complaint: str) -> None:
    with pytest.raises(WebError, match=complaint):
        parse_address(text)


def start_error(*listen: str) -> str:
    with pytest.raises(WebError) as caught, running_server(listen=listen):
        pass
    return str(caught.value)


def test_used_port_is_reported_and_nothing_stays_open() -> None:
    free = free_port()
    with socket.create_server(("127.0.0.1", 0)) as other:
        port_in_use = other.getsockname()[1]
        message = start_error(f"127.0.0.1:{free}", f"127.0.0.1:{port_in_use}")
    name = Path("/proc/self/comm").read_text().strip()
    assert message == (
        f"cannot listen on 127.0.0.1:{port_in_use}: port {port_in_use} is already in use by {name} (process {os.getpid()}); "
        "stop it or set another listen_address"
    )
    with pytest.raises(ConnectionRefusedError):
        connect(free)


@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        ("192.0.2.1:0", "this machine has no such address"),
        ("no-such-host.invalid:0", "the name 'no-such-host.invalid' cannot be resolved"),
        ("unix:/no/such/folder/web.sock", "the folder does not exist"),
    ],
)
def test_unavailable_address_is_reported(address: str, complaint: str) -> None:
    assert complaint in start_error(address)


def test_all_interfaces_take_both_families() -> None:
    with running_server(listen=(":0",)) as running:
        port = running.port
        assert running.server.addresses == (f"[::]:{port}",)
        for host in ("127.0.0.1", "::1"):
            with socket.create_connection((host, port), timeout=60) as client:
                client.sendall(b"GET /both HTTP/1.0\r\n\r\n")
                assert read_to_end(client).endswith(b"GET /both?\n")


def test_several_addresses_of_all_kinds(tmp_path: Path) -> None:
    path = tmp_path / "web.sock"
    with running_server(listen=(LOOPBACK, "[::1]:0", f"unix:{path}", LOOPBACK)) as running:
        first, second, third = running.server.addresses
        assert first == f"127.0.0.1:{running.port}"
        assert second.startswith("[::1]:")
        assert third == f"unix:{path}"
        assert via_unix(path) == b"GET /unix?\n"
    assert not path.exists()


def via_unix(path: Path) -> bytes:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(60)
        client.connect(str(path))
        client.sendall(b"GET /unix HTTP/1.0\r\n\r\n")
        return read_to_end(client).partition(b"\r\n\r\n")[2]


def test_a_socket_left_behind_is_replaced_and_one_in_use_is_not(tmp_path: Path) -> None:
    path = tmp_path / "web.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with running_server(listen=(f"unix:{path}",)):
        assert via_unix(path) == b"GET /unix?\n"
        assert "already in use" in start_error(f"unix:{path}")
        assert via_unix(path) == b"GET /unix?\n"


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("data")
    assert "the existing file is not a socket" in start_error(f"unix:{path}")
    assert path.read_text() == "data"


def test_unsafe_folder_of_a_socket_is_reported(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    (tmp_path / "folder").symlink_to("/run")
    message = start_error(f"unix:{tmp_path}/folder/web.sock")
    assert message.endswith(f": {tmp_path}/folder is a link that another user can change; use its target instead")


def test_another_servers_socket_is_not_removed_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "web.sock"
    with running_server(listen=(f"unix:{path}",)):
        path.unlink()
        other = socket.socket(socket.AF_UNIX)
        other.bind(str(path))
    assert path.exists()
    other.close()


def test_changing_from_loopback_to_all_interfaces_and_back_loses_no_scrape() -> None:
    port = free_port()
    narrow, wide = (f"127.0.0.1:{port}",), (f":{port}",)
    with running_server(listen=narrow) as running, Scraper(port) as scraper:
        for _ in range(10):
            for listen in (wide, narrow):
                before = scraper.statuses[200]
                running.call(running.server.reconfigure(listen, ""))
                until(lambda: scraper.statuses[200] >= before + 3, "scrapes after the change")  # noqa: B023  # called at once
    assert set(scraper.statuses) == {200}


def test_new_connections_of_a_removed_address_are_served_by_a_covering_one() -> None:
    entered, released = threading.Event(), threading.Event()

    def site(request: Request) -> Response:
        if request.path == "/first":
            entered.set()
            released.wait(60)
        return echo(request)

    with running_server(site, listen=(":0",)) as running, contextlib.ExitStack() as clients:
        port = running.port
        running.call(running.server.reconfigure((f":{port}",), ""))
        clients.enter_context(connect(port)).sendall(b"GET /first HTTP/1.0\r\n\r\n")
        assert entered.wait(60)  # the loop is blocked, so new connections are not accepted yet
        covered = [clients.enter_context(connect(port)) for _ in range(60)]
        others = [clients.enter_context(socket.create_connection(("::1", port), timeout=60)) for _ in range(60)]
        change = threading.Thread(target=running.call, args=(running.server.reconfigure((f"127.0.0.1:{port}",), ""),))
        change.start()
        for client in (*covered, *others):
            client.sendall(b"GET /late HTTP/1.0\r\n\r\n")
        released.set()
        change.join()
        answers = [read_to_end(client) for client in covered]
        assert [answer.endswith(b"GET /late?\n") for answer in answers] == [True] * 60
        assert sum(read_to_end(client) == b"" for client in others) >= 20
        assert running.server.addresses == (f"127.0.0.1:{port}",)


def test_a_listener_that_breaks_for_good_ends_the_serving() -> None:
    with running_server() as running:
        break_listener(running.port)
        with pytest.raises(OSError, match="Invalid argument"):
            running.call(running.server.serve_forever())


def break_listener(port: int) -> None:
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(link.name))) as copy:  # most are no sockets
            if copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) and copy.getsockname()[1] == port:
                copy.shutdown(socket.SHUT_RDWR)


def test_a_second_server_cannot_take_a_port_that_was_handed_over() -> None:
    with running_server(listen=(f"127.0.0.1:{free_port()}",)) as running:
        port = running.port
        running.call(running.server.reconfigure((f":{port}",), ""))
        assert "already in use" in start_error(f":{port}")
        assert "already in use" in start_error(f"127.0.0.1:{port}")


def test_addresses_that_stay_keep_their_connections_and_others_lose_theirs(tmp_path: Path) -> None:
    path = tmp_path / "web.sock"
    with running_server(listen=(LOOPBACK, f"unix:{path}")) as running, socket.socket(socket.AF_UNIX) as gone:
        kept = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
        kept.request("GET", "/1")
        assert kept.getresponse().read() == b"GET /1?\n"
        gone.settimeout(60)
        gone.connect(str(path))
        gone.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert gone.recv(65536).startswith(b"HTTP/1.1 200")
        running.call(running.server.reconfigure((LOOPBACK,), ""))
        assert gone.recv(65536) == b""
        assert not path.exists()
        kept.request("GET", "/2")
        assert kept.getresponse().read() == b"GET /2?\n"
        kept.close()


@pytest.mark.parametrize("listen", [("192.0.2.1:0",), (LOOPBACK, "nonsense")])
def test_a_bad_change_changes_nothing(listen: tuple[str, ...]) -> None:
    with running_server() as running:
        before = running.server.addresses
        with pytest.raises(WebError):
            running.call(running.server.reconfigure(listen, ""))
        with pytest.raises(WebError):
            running.call(running.server.reconfigure((LOOPBACK, "[::1]:0"), "/no/such/file.yml"))
        assert running.server.addresses == before
        assert fetch(running.port).status == 200


def test_a_running_answer_is_finished_at_the_end() -> None:
    entered = threading.Event()

    def slow(request: Request) -> Response:
        entered.set()
        return Response(200, (b"x" * 10_000_000,))

    with running_server(slow) as running:
        client = connect(running.port)
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert entered.wait(60)
        received: list[bytes] = []
        reader = threading.Thread(target=lambda: received.append(read_to_end(client)))
        reader.start()
    reader.join()
    client.close()
    assert received[0].endswith(b"x" * 1000)
    assert len(received[0].partition(b"\r\n\r\n")[2]) == 10_000_000


def test_a_client_that_does_not_read_does_not_hold_up_the_end() -> None:
    with running_server(lambda _: Response(200, (b"x" * 50_000_000,))) as running, contextlib.ExitStack() as clients:
        for _ in range(5):
            clients.enter_context(connect(running.port)).sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until(lambda: running.connections(Phase.RESPONDING) == 5, "answers under way")
        running.call(running.server.close())
        assert running.connections() == 0


def test_serving_ends_with_close_and_closing_twice_is_harmless() -> None:
    with running_server() as running:
        waiting = threading.Thread(target=lambda: running.call(running.server.serve_forever()))
        waiting.start()
        running.call(running.server.close())
        waiting.join(60)
        assert not waiting.is_alive()


def test_closing_a_server_that_never_started_is_harmless() -> None:
    import asyncio

    asyncio.run(WebServer(echo, (LOOPBACK,), "").close())
