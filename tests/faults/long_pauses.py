"""A daemon that was stopped for a while serves nothing stale afterwards, and continues by itself."""

import signal
import time
from pathlib import Path

from kits.processes import holdings
from kits.tool_node import TOOL, series, tool_node, tool_text

# A reading lives ten seconds at these intervals.
PAUSE_SECONDS = 12.0


def test_after_a_pause_nothing_is_older_than_it_may_be(tmp_path: Path) -> None:
    daemon, tools = tool_node(tmp_path, deadline_seconds=1.0)
    readings = "accelerator_utilization_ratio{"
    with daemon:
        daemon.until_state(TOOL, "ok")
        daemon.until(lambda: series(daemon, readings))
        before = holdings(daemon.pid)
        daemon.signal(signal.SIGSTOP)
        tools.hangs(TOOL)
        time.sleep(PAUSE_SECONDS)
        daemon.signal(signal.SIGCONT)
        for _ in range(5):
            assert series(daemon, readings) == [], "a reading from before the pause"
            assert [poll for poll in daemon.source(TOOL)["polls"] if poll["age_seconds"] < PAUSE_SECONDS] == [] or (
                daemon.source(TOOL)["state"] != "ok"
            )
            time.sleep(0.05)
        daemon.until(lambda: daemon.source("host")["polls"][0]["age_seconds"] < 2.0)
        tools.prints(TOOL, tool_text())
        daemon.until(lambda: series(daemon, readings))
        daemon.until(lambda: holdings(daemon.pid).at_most(before, more=2))
