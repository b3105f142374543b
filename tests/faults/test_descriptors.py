"""Few descriptors and many clients: enough descriptors remain for the polls."""

import contextlib
import socket
from pathlib import Path

from kits.daemon import Daemon
from kits.processes import holdings
from kits.tool_node import TOOL, series, tool_node

LIMIT = 96
CLIENTS = 300


def connections(daemon: Daemon, count: int) -> contextlib.ExitStack:
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
            assert holdings(daemon.pid).descriptors < LIMIT
        assert daemon.logged("state=failed") == 0
