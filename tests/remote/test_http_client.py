"""The HTTP client of a daemon: over TCP, its local socket and TLS; each failure is one line with its remedy."""

import json
import socket
import threading
from types import SimpleNamespace

import pytest

from kits.daemon import Daemon
from kits.waiting import until
from kits.web_server import running_server
from telemetry_daemon.remote import http_client
from telemetry_daemon.remote.http_client import (
    AddressError,
    Client,
    Credentials,
    NodeError,
    node_address,
    node_addresses,
    parse_node_list,
)
from telemetry_daemon.web.messages import Response
from telemetry_daemon.web.server.open_connections import Deadlines


@pytest.mark.parametrize(
    ("text", "authority", "path", "tls"),
    [
        ("node1", "node1:19820", "", False),
        ("10.0.0.7:9400", "10.0.0.7:9400", "", False),
        ("[fd00::1]:9400", "[fd00::1]:9400", "", False),
        ("http://node1/gpu/", "node1:80", "/gpu", False),
        ("https://node1:8443", "node1:8443", "", True),
    ],
)
def test_address_is_parsed(text, authority, path, tls):
    address = node_address(text)
    assert (address.authority, address.path, address.is_tls) == (authority, path, tls)


@pytest.mark.parametrize(
    "text", ["", "a b", "ftp://node", "node:0", "node:99999", "user:secret@node", "node\x1b[2J", "[::1", "http://"]
)
def test_invalid_address_is_refused_in_one_line(text):
    with pytest.raises(AddressError) as refused:
        node_address(text)
    assert str(refused.value).isprintable()
    assert "secret" not in str(refused.value)


def test_a_list_of_nodes():
    assert parse_node_list("node1\n# all of rack 2\n\n node2:9400  # slow\n") == ["node1", "node2:9400"]
    assert [address.name for address in node_addresses(["a", "b", "a"])] == ["a", "b"]
    with pytest.raises(AddressError, match="256"):
        node_addresses([f"node{number}" for number in range(257)])


def test_the_daemon_answers_on_its_port_and_its_socket(tmp_path):
    with Daemon(tmp_path, arguments=("--demo", "2xnvidia")) as daemon:
        local = tmp_path / "run" / "local.sock"
        daemon.until(local.exists)
        for address in (daemon.address, f"http://{daemon.address}", f"unix:{local}"):
            client = Client(node_address(address))
            for _ in range(2):  # the second on the same connection
                assert json.loads(client.get("/api/v1/history").body)["schema"] == "telemetry.history/1"
            names = client.events("/api/v1/events")
            assert [next(names)[0], next(names)[0]] == ["state", "readings"]
            names.close()


def test_a_connection_that_the_server_gave_up_is_made_again():
    with running_server(deadlines=Deadlines(idle=0.05, linger=0.05)) as server:
        client = Client(node_address(f"127.0.0.1:{server.port}"))
        assert client.get("/").body
        until(lambda: not any(server.statistics().connections.values()), "the end of the connection")
        assert client.get("/").body
        client.close()


def test_a_password_is_sent_and_not_shown():
    seen = []

    def site(request):
        seen.append(request.headers.get("authorization"))
        return Response(200, (b"{}",))

    credentials = Credentials("me", "secret")
    with running_server(site) as server:
        client = Client(node_address(f"127.0.0.1:{server.port}"), credentials)
        client.get("/")
        client.close()
    assert seen == ["Basic bWU6c2VjcmV0"]
    assert "secret" not in repr(credentials)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", "--password-file"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\nContent-Length: 0\r\n\r\n", "302"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "no telemetry daemon"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "not valid HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", "truncated"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "not valid HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n" + b"x" * 1000, "truncated"),
        (b"x" * 100_000, "not valid HTTP"),
        (b"", "not valid HTTP"),
    ],
)
def test_another_answer_is_refused_in_one_line(answer, why):
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_answer_once, args=(server, answer), daemon=True).start()
        with pytest.raises(NodeError) as refused:
            Client(node_address(f"127.0.0.1:{server.getsockname()[1]}")).get("/")
    assert why in str(refused.value)
    assert str(refused.value).isprintable()


def _answer_once(server, answer):
    client, _ = server.accept()
    with client:
        client.recv(4096)
        client.sendall(answer)


def test_who_does_not_answer_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(NodeError, match="no answer in time"):
        Client(node_address(f"127.0.0.1:{silent.getsockname()[1]}"), timeout_seconds=0.2).get("/")


def test_missing_listener_is_reported(tmp_path):
    with pytest.raises(NodeError, match="no daemon answers"):
        Client(node_address(f"unix:{tmp_path}/local.sock")).get("/")


class Events:
    """A stream whose events are sent by the test."""

    def __init__(self):
        self.waiting = []

    def begin(self, more, drop):
        self.more = more

    def next(self):
        return self.waiting.pop(0) if self.waiting else b""

    def close(self):
        pass

    async def tell(self):
        self.waiting.append(b"event: readings\ndata: 1\n\n")
        self.more()


def test_a_stream_lasts_longer_than_any_answer_may_take(monkeypatch):
    now, events = 1000.0, Events()
    monkeypatch.setattr(http_client, "time", SimpleNamespace(monotonic=lambda: now))
    with running_server(lambda request: Response(200, (b": hello\n\n",), pieces=events)) as server:
        names = Client(node_address(f"127.0.0.1:{server.port}"), timeout_seconds=60.0).events("/api/v1/events")
        events.waiting.append(b"event: state\ndata: 1\n\n")
        assert next(names) == ("state", "1")
        for _ in range(5):
            now += 50.0
            server.call(events.tell())
            assert next(names) == ("readings", "1")
        names.close()
