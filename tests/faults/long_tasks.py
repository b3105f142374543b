"""No process or thread can start (TasksMax=): the tool that uses them all is killed, and the daemon recovers."""

import sys
from pathlib import Path

import pytest

from faults.control_group import control_group
from kits.tool_node import TOOL, series, tool_node

GREEDY = "mx-smi"
TASKS = 40
# Uses every free task, also those that become free later, until it is killed.
TAKES_ALL = f"""#!{sys.executable}
import subprocess, time
while True:
    try:
        subprocess.Popen(["sleep", "60"])
    except OSError:
        time.sleep(0.01)
"""


@pytest.mark.needs("root")
def test_daemon_recovers_from_a_tool_that_uses_every_task(tmp_path: Path) -> None:
    with control_group("pids", "pids.max", "pids.max", TASKS) as join:
        daemon, tools = tool_node(tmp_path, f"[sources.{GREEDY}]\ninterval = 1.0\ndeadline = 6.0\n", prefix=join)
        greedy = Path(tools.folder, GREEDY)
        greedy.write_text(TAKES_ALL)
        greedy.chmod(0o755)
        with daemon:
            daemon.until(lambda: daemon.source(TOOL).get("state") == "failed")
            daemon.until(lambda: daemon.logged("raise TasksMax="))
            daemon.until(lambda: daemon.source(GREEDY).get("reason") == "timeout")
            tools.prints(GREEDY, "none")
            daemon.until_state(TOOL, "ok")
            assert series(daemon, "accelerator_up{")
            assert daemon.stop()[0] == 0
        assert not daemon.logged("Traceback")
