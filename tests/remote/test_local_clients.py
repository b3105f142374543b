"""The site on a socket of the daemon's own: root and its user ask there without TLS and password, and nobody else does."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from kits.web_server import echo, read_to_end
from telemetry_daemon.service.local_site import LocalSite
from telemetry_daemon.web.addresses import local_socket_in

REQUEST = b"GET /some?where HTTP/1.1\r\nHost: any.name.at.all\r\nConnection: close\r\n\r\n"
_Result = TypeVar("_Result")


def served(path: Path, client: Callable[[], _Result]) -> _Result:
    """What a client gets from a local server."""

    async def serve() -> _Result:
        server = LocalSite(path, echo, dict)
        await server.start()
        try:
            return await asyncio.to_thread(client)
        finally:
            await server.close()

    return asyncio.run(serve())


def asked(path: Path) -> bytes:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(str(path))
        client.sendall(REQUEST)
        return read_to_end(client)


def test_whoever_may_connect_is_answered_under_any_host_name(tmp_path: Path) -> None:
    path = local_socket_in(str(tmp_path))
    assert served(path, lambda: asked(path)).endswith(b"GET /some?where\n")


def test_only_its_user_and_group_may_connect_and_it_is_gone_at_the_end(tmp_path: Path) -> None:
    path = local_socket_in(str(tmp_path / "made"))
    assert served(path, lambda: stat.S_IMODE(path.stat().st_mode)) == 0o660
    assert not path.exists()


@pytest.mark.needs("root", "curl")
@pytest.mark.parametrize(
    ("user", "groups", "is_answered"), [(0, [], True), (65534, [], False), (65534, [4711, 0], True)]
)
def test_another_user_gets_nothing_even_if_somebody_opened_the_socket_to_all(
    tmp_path: Path, user: int, groups: list[int], is_answered: bool
) -> None:
    path = local_socket_in(str(tmp_path))
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):
        folder.chmod(folder.stat().st_mode | 0o011)

    def client() -> bool:
        path.chmod(0o666)
        command = ["curl", "--silent", "--unix-socket", str(path), "http://localhost/"]
        return (
            subprocess.run(
                command, user=user, group=user, extra_groups=groups, cwd="/", stdout=subprocess.DEVNULL
            ).returncode
            == 0
        )

    assert served(path, client) is is_answered


def test_a_socket_left_behind_is_replaced_and_a_living_daemon_s_is_not(tmp_path: Path) -> None:
    path = local_socket_in(str(tmp_path))
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    assert served(path, lambda: asked(path))

    async def second() -> None:
        await LocalSite(path, echo, dict).start()

    def client() -> bytes:
        with pytest.raises(OSError, match="another daemon listens on"):
            asyncio.run(second())
        return asked(path)

    assert served(path, client)


def test_many_clients_that_say_nothing_leave_no_descriptors_behind(tmp_path: Path) -> None:
    path = local_socket_in(str(tmp_path))
    before = len(list(Path("/proc/self/fd").iterdir()))

    def client() -> bytes:
        with contextlib.ExitStack() as silent:
            for _ in range(200):
                silent.enter_context(socket.socket(socket.AF_UNIX)).connect(str(path))
            return asked(path)

    assert served(path, client).startswith(b"HTTP/1.1 200")
    assert len(list(Path("/proc/self/fd").iterdir())) <= before
