"""Faults of readers beyond the e2e tests: files, host, tools and libraries that come and go."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from kits.daemon import Daemon
from kits.fake_nvml.library import FakeNvml
from kits.fake_sysfs import Sysfs, mi210
from kits.fake_tools import ToolFolder
from kits.processes import alive, descendants
from kits.tool_node import TOOL, TOOL_CONFIG, series, tool_node, tool_text

BUS = "0000:03:00.0"
FILES = '[sources.amdgpu-sysfs]\ninterval = 0.3\ndeadline = 1.5\npath = "{root}"\n'
IN_NAMESPACE = ("unshare", "--mount", "sh", "-c")


def bound(source: str, over: str) -> tuple[str, ...]:
    return (*IN_NAMESPACE, f'mount --bind {source} {over} && exec "$@"', "sh")


def files_node(folder: Path) -> tuple[Daemon, Path]:
    sysfs = Sysfs(folder / "host")
    card = sysfs.card(BUS, mi210())
    tools = ToolFolder(folder / "tools")
    return Daemon(folder, FILES.format(root=sysfs.root), environment=tools.environment), card


def amd(daemon: Daemon, metric: str) -> list[str]:
    return [line for line in series(daemon, f"accelerator_{metric}{{") if 'vendor="amd"' in line]


def test_a_driver_that_is_unloaded_takes_its_readings_along(tmp_path: Path) -> None:
    daemon, card = files_node(tmp_path)
    with daemon:
        daemon.until(lambda: amd(daemon, "power_watts"))
        drivers = card.parents[2] / "bus/pci/drivers/amdgpu"
        assert drivers.is_dir()
        shutil.rmtree(drivers)
        daemon.until(lambda: not amd(daemon, "power_watts"))
        assert daemon.source("amdgpu-sysfs")["state"] in ("missing", "failed", "no_devices")
        assert not [line for line in amd(daemon, "up") if line.endswith(" 1.0")]
        drivers.mkdir()
        (drivers / BUS).symlink_to(card)
        # A missing source is searched once a minute.
        daemon.until(lambda: amd(daemon, "power_watts"))


def test_a_worker_that_reads_files_and_is_killed_or_frozen_is_replaced(tmp_path: Path) -> None:
    daemon, _ = files_node(tmp_path)
    with daemon:
        daemon.until(lambda: amd(daemon, "power_watts"))
        for number, reason in ((signal.SIGKILL, "killed"), (signal.SIGSTOP, "timeout")):
            old = [pid for pid in descendants(daemon.pid) if b"amdgpu" in Path(f"/proc/{pid}/cmdline").read_bytes()]
            assert old
            for pid in old:
                os.kill(pid, number)
            daemon.until(lambda: daemon.source("amdgpu-sysfs")["state"] == "failed")
            assert (daemon.source("amdgpu-sysfs")["reason"], amd(daemon, "power_watts")) == (reason, [])
            daemon.until(lambda: amd(daemon, "power_watts"))
            assert not [pid for pid in old if alive(pid)]


@pytest.mark.needs("unshare")
@pytest.mark.parametrize("file", ["/proc/meminfo", "/proc/loadavg", "/proc/uptime", "/proc/stat"])
def test_broken_proc_affects_only_readings_of_the_host(tmp_path: Path, file: str) -> None:
    """Some containers have a /proc that is not the kernel's."""
    (tmp_path / "broken").write_text("not what the kernel says\n")
    daemon, _ = tool_node(tmp_path, prefix=bound(str(tmp_path / "broken"), file))
    with daemon:
        daemon.until_state(TOOL, "ok")
        daemon.until(lambda: daemon.source("host"))
        assert series(daemon, "accelerator_up{")
        assert daemon.get("/api/v1/snapshot")[0] == 200
        # Values that were not read are missing, and none is a false 0.
        shown = {line.split(" ")[0]: float(line.split(" ")[1]) for line in series(daemon, "telemetry_host_")}
        assert all(value > 0 for name, value in shown.items() if "memory" in name or "uptime" in name)
        if file == "/proc/meminfo":
            assert not [name for name in shown if "memory" in name]
        assert daemon.stop()[0] == 0


@pytest.mark.needs("cc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV])
def test_the_library_worker_may_die_or_freeze(tmp_path: Path, number: signal.Signals) -> None:
    fake = FakeNvml(tmp_path / "nvml", "h100")
    tools = ToolFolder(tmp_path / "tools")
    tools.prints(TOOL, tool_text())
    config = TOOL_CONFIG + "[sources.nvml]\ninterval = 0.5\ndeadline = 1.5\n"
    environment = {**fake.environment, "PATH": tools.search_path}
    with Daemon(tmp_path, config, environment=environment) as daemon:
        power = 'accelerator_power_watts{device="0",id="GPU-'
        daemon.until(lambda: series(daemon, power))
        for pid in [pid for pid in descendants(daemon.pid) if b"nvml" in Path(f"/proc/{pid}/cmdline").read_bytes()]:
            os.kill(pid, number)
        daemon.until(lambda: daemon.source("nvml")["state"] == "failed")
        assert daemon.source("nvml")["reason"] in ("killed", "timeout")
        assert daemon.source(TOOL)["state"] == "ok"
        daemon.until(lambda: series(daemon, power))


def test_a_tool_that_stops_itself_is_ended_at_its_deadline(tmp_path: Path) -> None:
    daemon, tools = tool_node(tmp_path, deadline_seconds=1.0)
    with daemon:
        daemon.until_state(TOOL, "ok")
        tools.script(TOOL, "kill -STOP $$")
        daemon.until(lambda: daemon.source(TOOL)["state"] == "failed")
        assert daemon.source(TOOL)["reason"] == "timeout"
        tools.prints(TOOL, tool_text())
        daemon.until_state(TOOL, "ok")
        assert not [pid for pid in tools.pids(TOOL)[:-2] if alive(pid)]
