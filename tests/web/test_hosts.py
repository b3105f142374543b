"""Host names that the server accepts, and addresses that count as one client."""

import logging
import socket
from pathlib import Path

import pytest

from kits.ports import free_port
from kits.web_server import Pki, exchange, fetch, read_to_end, running_server
from telemetry_daemon.web.access.access_control import HostRule
from telemetry_daemon.web.clients import client_key

ALWAYS = [
    "localhost", "localhost:19820", "LocalHost:8080", "localhost.", "localhost.:19820", "localhost:",
    "ip6-localhost:1", "localhost.localdomain", "grafana.localhost:3000", "127.0.0.1", "127.0.0.1:19820",
    "127.0.0.1.", "127.9.8.7:1", "[::1]", "[::1]:19820", "[0:0:0:0:0:0:0:1]:80", "[::ffff:127.0.0.1]:1",
    "[::ffff:7f00:1]",
]  # fmt: skip
NEVER = [
    "evil.example", "evil.example:19820", "localhost.evil.example", "evillocalhost", "127.0.0.1.evil.example",
    "evil@localhost", ":19820", "10.0.0.7", "10.0.0.7:19820", "[fd00::7]:1", "[::]", "0.0.0.0", "127.1",
    "2130706433", "0x7f.0.0.1", "::1", "[::1", "[::1]x", "[localhost]x:1", "localhost:80:80", "localhost:x",
    "localhost,evil.example",
]  # fmt: skip


def status_for(port: int, *lines: str) -> int:
    received = exchange(port, "\r\n".join((*lines, "", "")).encode())
    return int(received.split(b" ", 2)[1])


@pytest.mark.parametrize(
    ("host", "status"), [*((host, 200) for host in ALWAYS), *((host, 421) for host in NEVER)], ids=str
)
def test_a_loopback_address_answers_for_loopback_names_and_addresses_only(host: str, status: int) -> None:
    with running_server() as running:
        assert status_for(running.port, "GET /metrics HTTP/1.1", f"Host: {host}") == status


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (("GET / HTTP/1.0",), 200),
        (("GET / HTTP/1.1", "Host:"), 200),  # no browser sends these two
        (("GET / HTTP/1.0", "Host: evil.example"), 421),
        (("HEAD / HTTP/1.1", "Host: evil.example"), 421),
        (("GET http://evil.example/ HTTP/1.1", "Host: localhost"), 421),
        (
            ("GET http://localhost:1/ HTTP/1.1", "Host: evil.example"),
            200,
        ),  # the host of the target wins, according to HTTP
        (("GET http://localhost@evil.example/ HTTP/1.1", "Host: localhost"), 421),
        (("GET http:///metrics HTTP/1.1", "Host: localhost"), 400),
        (("GET / HTTP/1.1", "Host: evil.example", "X-Forwarded-Host: localhost"), 421),
        (("GET / HTTP/1.1", "Host: evil.example", "Forwarded: host=localhost"), 421),
        (("GET / HTTP/1.1", "Host: localhost", "X-Forwarded-Host: evil.example"), 200),
        (("GET / HTTP/1.1", "Host: localhost", "Host: localhost"), 400),
    ],
)
def test_host_comes_from_the_target_or_the_header(lines: tuple[str, ...], status: int) -> None:
    with running_server() as running:
        assert status_for(running.port, *lines) == status


@pytest.mark.parametrize(
    ("allowed", "host", "answered"),
    [
        ("gpu7.example.com", "gpu7.example.com:443", True),
        ("gpu7.example.com", "GPU7.example.com.", True),
        ("GPU7.example.com.", "gpu7.example.com", True),
        ("gpu7.example.com", "gpu8.example.com", False),
        ("gpu7.example.com", "example.com", False),
        ("*.example.com", "gpu7.example.com", True),
        ("*.example.com", "a.b.example.com:80", True),
        ("*.example.com", "example.com", False),
        ("*.example.com", "evilexample.com", False),
        ("10.0.0.7", "10.0.0.7:80", True),
        ("fd00::7", "[fd00:0::7]:80", True),
        ("*", "evil.example", True),
    ],
)
@pytest.mark.parametrize("local_address", [("127.0.0.1", 1), ("10.1.1.1", 1), ""], ids=["loopback", "network", "unix"])
def test_allowed_hosts_are_answered_for_everywhere(
    allowed: str, host: str, answered: bool, local_address: object
) -> None:
    rule = HostRule([allowed], [("127.0.0.1", 1)])
    assert rule.is_allowed(host, local_address) == answered
    assert rule.is_allowed("localhost:80", local_address)


@pytest.mark.parametrize(
    ("local_address", "host"),
    [
        (("10.1.1.1", 1), "10.1.1.1:1"),
        (("::ffff:10.1.1.1", 1, 0, 0), "10.1.1.1:1"),
        (("fd00::1", 1, 0, 0), "[fd00::0:1]"),
        (("fe80::1%eth0", 1, 0, 2), "[fe80::1]:1"),
    ],
)
def test_an_address_answers_for_itself(local_address: object, host: str) -> None:
    assert HostRule(["gpu7"]).is_allowed(host, local_address)
    assert not HostRule(["gpu7"]).is_allowed("10.1.1.2", local_address)


def test_other_addresses_answer_for_every_name_until_some_are_allowed(tmp_path: Path) -> None:
    path = tmp_path / "web.sock"
    for allowed, status in (((), 200), (("gpu7",), 421)):
        with running_server(listen=(":0", f"unix:{path}"), allowed_hosts=allowed) as running:
            request = ("GET / HTTP/1.1", "Host: evil.example")
            assert status_for(running.port, *request) == status
            assert status_for(running.port, request[0], "Host: gpu7:80") == 200
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(path))
                client.sendall("\r\n".join((*request, "Connection: close", "", "")).encode())
                assert int(read_to_end(client).split(b" ", 2)[1]) == status


def test_refusal_has_a_remedy_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with running_server() as running, caplog.at_level(logging.INFO):
        replies = [fetch(running.port, headers={"Host": f"evil{number}.example"}) for number in range(5)]
    assert {reply.status for reply in replies} == {421}
    assert b"add the name to web.allowed_hosts" in replies[0].body
    (line,) = [record.getMessage() for record in caplog.records]
    assert "'evil0.example'" in line
    assert "web.allowed_hosts" in line


def test_a_reload_changes_what_is_answered_for_on_open_connections_too() -> None:
    address = f"127.0.0.1:{free_port()}"
    with running_server(listen=(address,)) as running:
        port = running.port

        def status() -> int:
            return status_for(port, "GET / HTTP/1.1", "Host: gpu7")

        assert status() == 421
        running.call(running.server.reconfigure((address,), "", ("gpu7",)))
        assert status() == 200
        running.call(running.server.reconfigure((address,), ""))
        assert status() == 421
        # The listener of 127.0.0.1 becomes a part of the new listener, with its rules.
        running.call(running.server.reconfigure((f":{port}",), ""))
        assert status() == 200
        running.call(running.server.reconfigure((address,), ""))
        assert status() == 421


def test_the_host_is_looked_at_before_limits_and_passwords(pki: Pki, tmp_path: Path) -> None:
    file = tmp_path / "web.yml"
    file.write_text(pki.tls_section() + "rate_limit: {interval: 1h, burst: 1}\n")
    with running_server(config_file=file) as running:
        tls = pki.trusting()
        for _ in range(3):
            assert fetch(running.port, headers={"Host": "evil.example"}, tls=tls).status == 421
        assert [fetch(running.port, tls=tls).status for _ in range(2)] == [200, 429]


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (("10.0.0.7", 1), ("10.0.0.7", 2), True),
        (("10.0.0.7", 1), ("10.0.0.8", 1), False),
        (("10.0.0.7", 1), ("::ffff:10.0.0.7", 1, 0, 0), True),
        (("::ffff:10.0.0.7", 1, 0, 0), ("::ffff:10.0.0.8", 1, 0, 0), False),
        (("2001:db8:0:1::1", 1, 0, 0), ("2001:db8:0:1:ffff::2", 1, 0, 0), True),
        (("2001:db8:0:1::1", 1, 0, 0), ("2001:db8:0:2::1", 1, 0, 0), False),
        (("fe80::1%eth0", 1, 0, 2), ("fe80::2%eth0", 1, 0, 2), False),
        (("::1", 1, 0, 0), ("127.0.0.1", 1), False),
        ("", b"", True),
        ("", ("127.0.0.1", 1), False),
    ],
)
def test_addresses_are_grouped_into_clients(first: object, second: object, same: bool) -> None:
    assert (client_key(first) == client_key(second)) == same
