"""No memory: what asks for it fails, and the daemon is there when there is some again."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from daemon_kit import Daemon
from faults_kit import PLUGIN, TOOL, SwitchedPlugin, series, tool_node

V1, V2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
LIMIT_BYTES = 300 << 20


def test_an_address_space_that_is_used_up_and_enlarged_again(tmp_path: Path) -> None:
    daemon, _ = tool_node(tmp_path)
    with daemon:
        daemon.until_state(TOOL, "ok")
        daemon.until(lambda: series(daemon, "accelerator_up{"))
        soft, hard = resource.prlimit(daemon.pid, resource.RLIMIT_AS)
        # The daemon can have no more than it has, and a tool, which inherits the limit, not even its own program.
        resource.prlimit(daemon.pid, resource.RLIMIT_AS, (1 << 20, hard))
        daemon.until(lambda: _asked(daemon) != "ok")
        resource.prlimit(daemon.pid, resource.RLIMIT_AS, (soft, hard))
        daemon.until(lambda: _asked(daemon) == "ok")
        assert series(daemon, "accelerator_up{")
        assert daemon.stop()[0] == 0


def _asked(daemon: Daemon) -> str:
    """The tool's state; what is answered without any memory is no concern."""
    with suppress(OSError, AssertionError, ValueError):
        return str(daemon.source(TOOL)["state"])
    return "no answer"


@contextmanager
def memory_cgroup() -> Iterator[tuple[Path, Path]]:
    """A group with little memory: the file that takes processes, and its folder."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a control group")
    first = V1.is_dir()
    group = (V1 if first else V2) / f"telemetry-test-{os.getpid()}"
    limit = group / ("memory.limit_in_bytes" if first else "memory.max")
    try:
        group.mkdir()
        limit.write_text(str(LIMIT_BYTES))
    except OSError as error:
        pytest.skip(f"no control group of memory can be made: {error}")
    try:
        yield group / "cgroup.procs", group
    finally:
        group.rmdir()


def test_the_kernel_ends_the_plugin_that_eats_and_not_the_daemon(tmp_path: Path, plugin: SwitchedPlugin) -> None:
    with memory_cgroup() as (processes, _):
        join = ("sh", "-c", f'echo $$ >{processes} && exec "$@"', "sh")
        daemon, _ = tool_node(tmp_path, plugin.config.replace("deadline = 1.5", "deadline = 20.0"), prefix=join)
        power = 'accelerator_power_watts{device="0",id="ACME-1"'
        with daemon:
            daemon.until(lambda: series(daemon, power))
            plugin.says("read-eat")
            daemon.until(lambda: daemon.source(PLUGIN)["state"] == "failed")
            assert daemon.source(PLUGIN)["reason"] in ("killed", "internal")
            plugin.says("81")
            daemon.until(lambda: series(daemon, power))
            daemon.until_state(TOOL, "ok")
            assert daemon.stop()[0] == 0
