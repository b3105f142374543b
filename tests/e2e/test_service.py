"""The daemon with systemd, node_exporter's textfile, and plugins of a folder."""

import os
import select
import signal
import socket
from pathlib import Path

from kits.daemon import Daemon
from kits.fake_tools import ToolFolder
from kits.page_lint import complaints
from plugins import distributions


class Systemd:
    """A notification socket that keeps its messages."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "notify"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(self.path))
        self.messages: list[str] = []

    def received(self, word: str) -> int:
        """Return how many messages so far contain the word."""
        while select.select([self._socket], [], [], 0)[0]:
            self.messages.append(self._socket.recv(4096).decode())
        return sum(word in message for message in self.messages)

    def close(self) -> None:
        self._socket.close()


def test_systemd_is_notified(tmp_path):
    """READY once it listens, WATCHDOG unless it hangs, RELOADING and READY at a reload, STOPPING at the end."""
    systemd = Systemd(tmp_path)
    environment = {"NOTIFY_SOCKET": str(systemd.path), "WATCHDOG_USEC": "400000"}
    with Daemon(tmp_path, environment=environment) as daemon:
        daemon.until(lambda: systemd.received("READY=1") == 1)
        daemon.until(lambda: systemd.received("WATCHDOG=1") >= 3)
        daemon.signal(signal.SIGHUP)
        daemon.until(lambda: systemd.received("READY=1") == 2)
        assert systemd.received("RELOADING=1\nMONOTONIC_USEC=") == 1
        daemon.signal(signal.SIGSTOP)
        os.waitpid(daemon.pid, os.WUNTRACED)
        before = systemd.received("WATCHDOG=1")
        assert systemd.received("WATCHDOG=1") == before
        daemon.signal(signal.SIGCONT)
        daemon.until(lambda: systemd.received("WATCHDOG=1") > before)
        assert daemon.stop()[0] == 0
    assert systemd.received("STOPPING=1") == 1
    systemd.close()


def test_textfile_is_complete(tmp_path):
    """node_exporter's file passes the lint, and nothing else is left in its folder. A missing source is logged once."""
    folder = tmp_path / "textfiles"
    folder.mkdir()
    path = folder / "accelerators.prom"
    config = f'[export.textfile]\npath = "{path}"\ninterval = 1.0\n[sources.npu-smi]\ninterval = 0.3\n'
    with Daemon(tmp_path, config, environment={"PATH": str(tmp_path)}) as daemon:
        daemon.until(path.exists)
        seen = set()
        daemon.until(lambda: seen.add(path.stat().st_ino) or len(seen) > 2)
        content = path.read_bytes()
        assert b"telemetry_host_memory_total_bytes" in content
        assert complaints(content) == []
        daemon.until_state("npu-smi", "missing")
        daemon.logs("source=npu-smi")
        daemon.stop()
    assert {entry.name for entry in folder.iterdir()} <= {"accelerators.prom"}


def test_plugins_of_a_folder_are_isolated(tmp_path):
    """Devices of plugins are served like others; a broken or hanging plugin is reported and affects nothing else."""
    tools = ToolFolder(tmp_path / "tools")
    tools.prints("acme-smi", "81.5\n")
    folder = tmp_path / "parsers"
    folder.mkdir()
    (folder / "acme.py").write_text(distributions.source())
    (folder / "broken.py").write_text("import no_such_module\n")
    hangs = "import dataclasses, time\nPARSER = dataclasses.replace(PARSER, parse=lambda capture: time.sleep(600))\n"
    (folder / "hangs.py").write_text(distributions.source("hangs", more=hangs))
    config = f'[parsers]\npaths = ["{folder}"]\n'
    with Daemon(tmp_path, config, environment={"PATH": tools.search_path}) as daemon:
        daemon.until_state("hangs", "failed")
        assert daemon.source("hangs")["reason"] == "timeout"
        daemon.until(lambda: "accelerator_power_watts{" in daemon.page())
        lines = daemon.page().splitlines()
        assert 'accelerator_power_watts{device="0",id="acme:0",model="",vendor="acme"} 81.5' in lines
        assert [line for line in lines if line.startswith("telemetry_plugin_load_failures{") and "broken.py" in line]
        assert daemon.source("host")["state"] == daemon.source("acme-smi")["state"] == "ok"
        assert daemon.stop()[0] == 0
