"""Every way in which a plugin's parser or library reader can fail, through the whole daemon."""

from pathlib import Path

import pytest

from faults.switched_plugin import PLUGIN, SwitchedPlugin
from kits.daemon import Daemon
from kits.processes import alive, descendants, holdings
from kits.tool_node import TOOL, series, tool_node

POWER = 'accelerator_power_watts{device="0",id="ACME-1"'

FAULTS = {
    "parse-raise": "internal",
    "parse-die": "killed",
    "parse-segfault": "killed",
    "parse-hang": "timeout",
    "parse-nonsense": "internal",
    "parse-garbage": "killed",
    "read-raise": "internal",
    "read-refuse": "driver_gone",
    "read-die": "killed",
    "read-segfault": "killed",
    "read-hang": "timeout",
}


def workers(daemon: Daemon) -> list[int]:
    named = [pid for pid in descendants(daemon.pid) if PLUGIN.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return [pid for pid in named if alive(pid)]


@pytest.mark.parametrize(("word", "reason"), FAULTS.items(), ids=list(FAULTS))
def test_fault_affects_only_its_readings_and_a_repair_is_noticed(
    tmp_path: Path, plugin: SwitchedPlugin, word: str, reason: str
) -> None:
    daemon, _ = tool_node(tmp_path, plugin.config)
    with daemon:
        daemon.until(lambda: series(daemon, POWER))
        before = holdings(daemon.pid)
        plugin.switch_to(word)
        daemon.until(lambda: daemon.source(PLUGIN)["state"] == "failed")
        source = daemon.source(PLUGIN)
        assert source["reason"] == reason, source
        assert series(daemon, POWER) == []
        assert f'telemetry_source_up{{source="{PLUGIN}"}} 0.0' in daemon.page()
        assert daemon.source(TOOL)["state"] == daemon.source("host")["state"] == "ok"
        plugin.switch_to("81")
        daemon.until(lambda: series(daemon, POWER))
        # Meanwhile the daemon's own jobs run for the first time, each on a thread.
        daemon.until(lambda: holdings(daemon.pid).at_most(before, more=6))
        assert len(workers(daemon)) == 1
        assert daemon.stop()[0] == 0


@pytest.mark.parametrize("word", ["parse-eat", "read-eat"])
def test_plugin_that_uses_all_memory_gets_its_own_error(tmp_path: Path, plugin: SwitchedPlugin, word: str) -> None:
    """With limited address space the allocation fails in the worker, not in the daemon."""
    daemon, _ = tool_node(tmp_path, plugin.config, prefix=("prlimit", f"--as={2 << 30}"))
    with daemon:
        daemon.until(lambda: series(daemon, POWER))
        plugin.switch_to(word)
        daemon.until(lambda: daemon.source(PLUGIN)["state"] == "failed")
        assert daemon.source(PLUGIN)["reason"] in ("internal", "timeout")
        assert daemon.source(TOOL)["state"] == daemon.source("host")["state"] == "ok"
        plugin.switch_to("81")
        daemon.until(lambda: series(daemon, POWER))
