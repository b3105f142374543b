"""Notifications to systemd, on a real datagram socket."""

import os
import socket
import time

import pytest

from telemetry_daemon.service import systemd


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path, monkeypatch):
    """Return a socket that listens as systemd does, by path or in the abstract namespace."""
    name = str(tmp_path / "notify") if request.param == "path" else f"@telemetry-test-{os.getpid()}-{id(request)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0" + name[1:] if name.startswith("@") else name)
        listener.settimeout(30)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        yield listener


def received_lines(manager: socket.socket) -> list[str]:
    return manager.recv(4096).decode().split("\n")


@pytest.mark.parametrize(
    ("notify_systemd", "lines"),
    [
        pytest.param(systemd.report_ready, ["READY=1", "STATUS=ready"], id="ready"),
        pytest.param(
            lambda: systemd.report_ready("8 devices"), ["READY=1", "STATUS=8 devices"], id="ready with a status"
        ),
        pytest.param(systemd.report_stopping, ["STOPPING=1"], id="stopping"),
        pytest.param(systemd.report_alive, ["WATCHDOG=1"], id="watchdog"),
        pytest.param(lambda: systemd.notify("STATUS=läuft"), ["STATUS=läuft"], id="status"),
        pytest.param(
            lambda: systemd.notify("STATUS=two\nlines\rSTOPPING=1"),
            ["STATUS=two lines STOPPING=1"],
            id="no line smuggled in",
        ),
        pytest.param(lambda: systemd.notify("STATUS=\udcff"), ["STATUS=?"], id="what is no text is replaced"),
    ],
)
def test_each_message_has_the_lines_that_systemd_reads(manager, notify_systemd, lines):
    assert notify_systemd() is True
    assert received_lines(manager) == lines


def test_reloading_carries_the_monotonic_time_of_now(manager):
    before = time.monotonic()
    assert systemd.report_reloading() is True
    first, second = received_lines(manager)
    assert first == "RELOADING=1"
    name, _, microseconds = second.partition("=")
    assert name == "MONOTONIC_USEC"
    assert before - 1e-6 <= int(microseconds) / 1e6 <= time.monotonic()


@pytest.mark.parametrize(
    "address",
    [
        pytest.param(None, id="not under systemd"),
        pytest.param("", id="empty"),
        pytest.param("/no/such/socket", id="no listener"),
        pytest.param("@no-such-socket-of-ours", id="no listener, abstract"),
        pytest.param("vsock:2:9999", id="a kind of address that is not for services"),
        pytest.param("/" + "x" * 500, id="too long for an address"),
    ],
)
def test_missing_or_invalid_socket_is_ignored(monkeypatch, address):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    if address is not None:
        monkeypatch.setenv("NOTIFY_SOCKET", address)
    assert systemd.report_ready() is False


def test_listener_that_does_not_read_blocks_nothing(manager):
    answers = {systemd.report_alive() for _ in range(3)}
    sent = 3
    manager.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    while systemd.notify("STATUS=" + "x" * 4000):
        sent += 1
        assert sent < 10_000, "the queue never fills"
    assert answers == {True}


def test_a_message_that_is_too_long_is_not_sent(manager):
    assert systemd.notify("STATUS=" + "x" * 10_000_000) is False


@pytest.mark.parametrize(
    ("microseconds", "pid", "seconds"),
    [
        pytest.param("30000000", None, 15.0, id="half of what is granted"),
        pytest.param("30000000", "own", 15.0, id="meant for this process"),
        pytest.param("30000000", "1", None, id="meant for another process"),
        pytest.param("30000000", "me", None, id="no process id"),
        pytest.param(None, None, None, id="not watched"),
        pytest.param("0", None, None, id="switched off"),
        pytest.param("-5", None, None, id="negative"),
        pytest.param("soon", None, None, id="no number"),
        pytest.param("9" * 5000, None, None, id="absurdly long"),
        pytest.param("²", None, None, id="a digit that is no number"),
    ],
)
def test_watchdog_interval(monkeypatch, microseconds, pid, seconds):
    for name, value in {"WATCHDOG_USEC": microseconds, "WATCHDOG_PID": pid}.items():
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, str(os.getpid()) if value == "own" else value)
    assert systemd.watchdog_interval() == seconds
