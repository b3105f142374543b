"""No descriptor left: polls and scrapes fail while it lasts, none is lost for good, and all goes on after it."""

from __future__ import annotations

import contextlib
import resource
import socket
from pathlib import Path

from daemon_kit import Daemon
from faults_kit import TOOL, held, series, tool_node

LIMIT = 96
CLIENTS = 300


def connections(daemon: Daemon, count: int) -> contextlib.ExitStack:
    """So many clients that begin a request and say no more."""
    host, _, port = daemon.address.rpartition(":")
    stack = contextlib.ExitStack()
    for _ in range(count):
        with contextlib.suppress(OSError):  # some are hung up on at once
            client = stack.enter_context(socket.create_connection((host, int(port)), timeout=5))
            client.sendall(b"GET /metrics HTTP/1.1\r\n")
    return stack


def test_at_a_low_limit_a_crowd_of_clients_takes_nothing_from_the_polls(tmp_path: Path) -> None:
    daemon, tools = tool_node(tmp_path, prefix=("prlimit", f"--nofile={LIMIT}:{LIMIT}"))
    with daemon:
        daemon.until_state(TOOL, "ok")
        with connections(daemon, CLIENTS):
            before = len(tools.calls(TOOL))
            daemon.until(lambda: len(tools.calls(TOOL)) >= before + 3)
            assert series(daemon, "accelerator_up{")
            assert daemon.source(TOOL)["state"] == "ok"
            assert held(daemon.pid).descriptors < LIMIT
        assert daemon.logged("state=failed") == 0


def test_without_any_descriptor_polls_fail_and_come_back(tmp_path: Path) -> None:
    daemon, _ = tool_node(tmp_path)
    with daemon:
        daemon.until_state(TOOL, "ok")
        before = held(daemon.pid)
        soft, hard = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
        # The web server's end of one connection may be opened, but no pipe to a tool.
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (before.descriptors + 1, hard))
        daemon.until(lambda: daemon.source(TOOL)["state"] == "failed")
        source = daemon.source(TOOL)
        assert source["reason"] == "internal"
        assert any("Too many open files" in problem["text"] for problem in source["problems"])
        assert [line for line in series(daemon, "accelerator_") if f"source={TOOL}" in line] == []
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (soft, hard))
        daemon.until_state(TOOL, "ok")
        daemon.until(lambda: held(daemon.pid).at_most(before, more=2))
        assert daemon.stop()[0] == 0
