"""The message about a used port: its owner if this user may see it, otherwise how to find out."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kits.ports import free_port
from telemetry_daemon.web.addresses import ListenError
from telemetry_daemon.web.server import listeners
from telemetry_daemon.web.server.listeners import open_listener

UNPRIVILEGED = 65534
OWN = f"(process {os.getpid()}); stop it or set another listen_address"
# A process with its user's rights only, which listens on a port and prints it.
HOLDER = """
import os, socket, sys
held = socket.create_server(("127.0.0.1", int(sys.argv[3])))
if int(sys.argv[1]) != os.getuid():
    os.setuid(int(sys.argv[1]))
open("/proc/self/comm", "w").write(sys.argv[2])
print(held.getsockname()[1], flush=True)
sys.stdin.read()
"""
# Prints the error for that port, as another user.
ASKER = """
import encodings.idna, os, sys
from telemetry_daemon.web.addresses import ListenError
from telemetry_daemon.web.server.listeners import open_listener
os.setuid(int(sys.argv[1]))
try:
    open_listener(sys.argv[2])
except ListenError as error:
    print(error)
"""


def refused(address: str) -> str:
    with pytest.raises(ListenError) as caught:
        open_listener(address).close()
    return str(caught.value)


@contextmanager
def held(user: int, name: str) -> Iterator[tuple[int, int]]:
    line = [sys.executable, "-c", HOLDER, str(user), name, str(free_port())]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline()), process.pid
        process.communicate()


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1", ""),
        ("0.0.0.0", "127.0.0.1"),
        ("::1", "[::1]"),
        ("::1", ""),
        ("127.0.0.1", "localhost"),
    ],
)
def test_the_owner_of_a_port_is_named_whatever_the_address(theirs: str, ours: str) -> None:
    family = socket.AF_INET6 if ":" in theirs else socket.AF_INET
    with socket.create_server((theirs, free_port()), family=family) as other:
        port = other.getsockname()[1]
        message = refused(f"{ours}:{port}")
    assert message.startswith(f"cannot listen on {ours}:{port}: port {port} is already in use by ")
    assert message.endswith(OWN)


def test_a_process_that_listens_on_another_address_with_the_same_port_is_not_named() -> None:
    with held(os.getuid(), "in-the-way") as (port, process), socket.create_server(("127.0.0.2", port)):
        assert f"in use by in-the-way (process {process});" in refused(f"127.0.0.1:{port}")


def test_a_name_that_would_write_on_the_terminal_is_shown_as_what_it_is() -> None:
    with held(os.getuid(), "\x1b[31mred") as (port, process):
        assert f"in use by '\\x1b[31mred' (process {process});" in refused(f"127.0.0.1:{port}")


@pytest.mark.needs("root")
def test_message_for_other_users_names_the_owner_and_a_command() -> None:
    with held(0, "other") as (port, _):
        line = [sys.executable, "-c", ASKER, str(UNPRIVILEGED), f"127.0.0.1:{port}"]
        done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert done.stdout == (
        f"cannot listen on 127.0.0.1:{port}: port {port} is already in use, by a process of user ID 0; "
        f"`sudo ss -tanp 'sport = :{port}'` shows the process: stop it or set another listen_address\n"
    )


def test_message_without_proc_names_the_port_and_a_command(
    tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listeners, "PROC", tmp_path)
    with socket.create_server(("127.0.0.1", free_port())) as other:
        port = other.getsockname()[1]
        message = refused(f"127.0.0.1:{port}")
    assert message == (
        f"cannot listen on 127.0.0.1:{port}: port {port} is already in use; "
        f"`sudo ss -tanp 'sport = :{port}'` shows the process: stop it or set another listen_address"
    )


def test_the_search_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "SEARCH_SECONDS", -1.0)
    with socket.create_server(("127.0.0.1", free_port())) as other:
        assert "sudo ss -tanp" in refused(f"127.0.0.1:{other.getsockname()[1]}")
