"""Allocations fail for a while; the daemon continues once there is memory again."""

import resource
from contextlib import suppress
from pathlib import Path

import pytest

from faults.control_group import control_group
from faults.switched_plugin import PLUGIN, SwitchedPlugin
from kits.daemon import Daemon
from kits.tool_node import TOOL, series, tool_node

LIMIT_BYTES = 300 << 20


def test_daemon_survives_an_exhausted_address_space(tmp_path: Path) -> None:
    daemon, _ = tool_node(tmp_path)
    with daemon:
        daemon.until_state(TOOL, "ok")
        daemon.until(lambda: series(daemon, "accelerator_up{"))
        soft, hard = resource.prlimit(daemon.pid, resource.RLIMIT_AS)
        # The daemon cannot allocate more, and a tool, which inherits the limit, cannot even start.
        resource.prlimit(daemon.pid, resource.RLIMIT_AS, (1 << 20, hard))
        daemon.until(lambda: _asked(daemon) != "ok")
        resource.prlimit(daemon.pid, resource.RLIMIT_AS, (soft, hard))
        daemon.until(lambda: _asked(daemon) == "ok")
        assert series(daemon, "accelerator_up{")
        assert daemon.stop()[0] == 0


def _asked(daemon: Daemon) -> str:
    """Return the tool's state; `no answer` if the daemon has no memory for an answer."""
    with suppress(OSError, AssertionError, ValueError):  # without memory the daemon may not answer
        return str(daemon.source(TOOL)["state"])
    return "no answer"


@pytest.mark.needs("root")
def test_kernel_kills_the_greedy_plugin_but_not_the_daemon(tmp_path: Path, plugin: SwitchedPlugin) -> None:
    with control_group("memory", "memory.limit_in_bytes", "memory.max", LIMIT_BYTES) as join:
        daemon, _ = tool_node(tmp_path, plugin.config.replace("deadline = 1.5", "deadline = 20.0"), prefix=join)
        power = 'accelerator_power_watts{device="0",id="ACME-1"'
        with daemon:
            daemon.until(lambda: series(daemon, power))
            plugin.switch_to("read-eat")
            daemon.until(lambda: daemon.source(PLUGIN)["state"] == "failed")
            assert daemon.source(PLUGIN)["reason"] in ("killed", "internal")
            plugin.switch_to("81")
            daemon.until(lambda: series(daemon, power))
            daemon.until_state(TOOL, "ok")
            assert daemon.stop()[0] == 0
