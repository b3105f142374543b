"""The real daemon's local socket: the site for root and the daemon's user, and by which settings the node is read."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import socket
from pathlib import Path

from kits.command_line import run_main
from kits.daemon import Daemon
from kits.fake_tools import ToolFolder
from kits.waiting import PATIENCE_SECONDS
from kits.web_server import cheap_hash
from telemetry_daemon.config.inputs import READS_HEADER
from telemetry_daemon.terminal.exits import NOTHING_FOUND
from telemetry_daemon.web.addresses import local_socket_in

DEMO = ("--demo", "1xnvidia")


class LocalConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(str(self._path))


def got(daemon: Daemon, path: str = "/api/v1/snapshot") -> tuple[int, str, bytes]:
    """The status, the word for what is read, and the body."""
    with contextlib.closing(LocalConnection(local_socket_in(f"{daemon.folder}/run"))) as client:
        client.request("GET", path)
        answer = client.getresponse()
        return answer.status, answer.getheader(READS_HEADER, ""), answer.read()


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


def test_the_word_for_what_is_read_changes_with_what_is_read_and_with_nothing_else(tmp_path: Path) -> None:
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


def test_a_simulation_does_not_pass_for_this_node(tmp_path: Path) -> None:
    with Daemon(tmp_path, arguments=DEMO) as daemon:
        status, reads, body = got(daemon)
        assert (status, reads, json.loads(body)["schema"]) == (200, "", "telemetry.snapshot/1")
        nothing = ToolFolder(tmp_path / "tools").environment
        shown = run_main("snapshot", "--config", str(daemon.config_path), environment=nothing)
        if shown.status == NOTHING_FOUND:  # this machine has no card
            assert "shows simulated cards; `telemetry snapshot --from daemon`" in shown.stderr


def test_a_daemon_that_cannot_have_it_serves_all_the_same_and_says_so_once(tmp_path: Path) -> None:
    local_socket_in(f"{tmp_path}/run").mkdir(parents=True)
    with node(tmp_path) as daemon:
        daemon.logs("no local socket")
        assert daemon.logged("no control socket") == 0
        assert daemon.page()
