"""The daemon's local socket serves root and the daemon's user without TLS and password, and no other user."""

import asyncio
import contextlib
import http.client
import json
import signal
import socket
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from kits.command_line import run_main
from kits.daemon import Daemon
from kits.fake_tools import ToolFolder
from kits.waiting import PATIENCE_SECONDS
from kits.web_server import cheap_hash, echo, read_to_end
from telemetry_daemon.config.inputs import SETTINGS_HASH_HEADER
from telemetry_daemon.service.local_site import LocalSite
from telemetry_daemon.terminal.exits import NOTHING_FOUND
from telemetry_daemon.web.addresses import local_socket_in

DEMO = ("--demo", "1xnvidia")


class LocalConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(str(self._path))


def got(daemon: Daemon, path: str = "/api/v1/snapshot") -> tuple[int, str, bytes]:
    with contextlib.closing(LocalConnection(local_socket_in(f"{daemon.folder}/run"))) as client:
        client.request("GET", path)
        answer = client.getresponse()
        return answer.status, answer.getheader(SETTINGS_HASH_HEADER, ""), answer.read()


def node(folder: Path, config: str = "") -> Daemon:
    return Daemon(folder, config, environment=ToolFolder(folder / "tools").environment)


def test_the_site_is_there_without_password_and_host_name(tmp_path: Path) -> None:
    web = tmp_path / "web.yml"
    web.write_text(f"basic_auth_users:\n  prometheus: {cheap_hash('secret')}\n")
    config = f'[web]\nconfig_file = "{web}"\nallowed_hosts = ["only.example.com"]\n'
    with node(tmp_path, config) as daemon:
        assert daemon.get()[0] == 401
        status, _, body = got(daemon, "/metrics")
        assert (status, b"telemetry_build_info" in body) == (200, True)
        assert daemon.stop()[0] == 0
        assert not local_socket_in(f"{tmp_path}/run").exists()


def test_hash_of_sources_changes_with_the_settings_of_sources_only(tmp_path: Path) -> None:
    with node(tmp_path) as daemon:

        def reads_after(config: str) -> str:
            reloads = daemon.logged("configuration reloaded")
            daemon.write_config(config)
            daemon.signal(signal.SIGHUP)
            daemon.until(lambda: daemon.logged("configuration reloaded") > reloads)
            return got(daemon)[1]

        plain = got(daemon)[1]
        assert len(plain) == 8
        assert reads_after('[log]\nformat = "json"\n[sources.nvml]\nmode = "auto"\n') == plain
        assert reads_after('[sources.nvml]\nmode = "never"\n') != plain
        assert reads_after("") == plain
        assert got(daemon, "/api/v1/history")[1] == ""


def test_simulated_daemon_is_not_used_for_this_node(tmp_path: Path) -> None:
    with Daemon(tmp_path, arguments=DEMO) as daemon:
        status, reads, body = got(daemon)
        assert (status, reads, json.loads(body)["schema"]) == (200, "", "telemetry.snapshot/1")
        nothing = ToolFolder(tmp_path / "tools").environment
        shown = run_main("snapshot", "--config", str(daemon.config_path), environment=nothing)
        if shown.status == NOTHING_FOUND:  # this machine has no card
            assert "has simulated cards; `telemetry snapshot --from daemon`" in shown.stderr


def test_daemon_without_a_local_socket_serves_and_logs_once(tmp_path: Path) -> None:
    local_socket_in(f"{tmp_path}/run").mkdir(parents=True)
    with node(tmp_path) as daemon:
        daemon.logs("no local socket")
        assert daemon.logged("no control socket") == 0
        assert daemon.page()


REQUEST = b"GET /some?where HTTP/1.1\r\nHost: any.name.at.all\r\nConnection: close\r\n\r\n"
_Result = TypeVar("_Result")


def served(path: Path, client: Callable[[], _Result]) -> _Result:
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


def test_permitted_clients_are_answered_under_any_host_name(tmp_path: Path) -> None:
    path = local_socket_in(str(tmp_path))
    assert served(path, lambda: asked(path)).endswith(b"GET /some?where\n")


def test_only_user_and_group_may_connect_and_the_socket_is_removed(tmp_path: Path) -> None:
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


def test_many_silent_clients_leave_no_descriptors_behind(tmp_path: Path) -> None:
    path = local_socket_in(str(tmp_path))
    before = len(list(Path("/proc/self/fd").iterdir()))

    def client() -> bytes:
        with contextlib.ExitStack() as silent:
            for _ in range(200):
                silent.enter_context(socket.socket(socket.AF_UNIX)).connect(str(path))
            return asked(path)

    assert served(path, client).startswith(b"HTTP/1.1 200")
    assert len(list(Path("/proc/self/fd").iterdir())) <= before
