"""On a node without tools the daemon seldom wakes up, runs nothing, and finds a tool that is installed later."""

import re
import time
from pathlib import Path

from kits.daemon import Daemon
from kits.fake_tools import ToolFolder
from kits.processes import descendants
from telemetry_parsers.host import PARSER as HOST

# Half are of the clock guard. With a search per missing source there were ten.
MAX_WAKE_UPS_A_SECOND = 7.0
SECONDS = 5.0
_VOLUNTARY = re.compile(r"^voluntary_ctxt_switches:\s*([0-9]+)$", re.MULTILINE)


def wake_ups(pid: int) -> int:
    """Return how often the threads of the process have waited."""
    return sum(
        int(_VOLUNTARY.findall((task / "status").read_text())[0]) for task in Path(f"/proc/{pid}/task").iterdir()
    )


def wake_ups_a_second(pid: int) -> float:
    """Return the mean over some seconds; on a busy machine threads that wait for each other wake up more often."""
    before = wake_ups(pid)
    time.sleep(SECONDS)  # The wake-ups of this span are counted.
    return (wake_ups(pid) - before) / SECONDS


def states(daemon: Daemon) -> dict[str, str]:
    return {source["source"]: source["state"] for source in daemon.document()["sources"]}


def test_idle_node_rarely_wakes_up(tmp_path: Path, tools: ToolFolder) -> None:
    config = "[sources.mthreads-gmi]\ninterval = 5.0\n"
    with Daemon(tmp_path, config, environment={"PATH": str(tools.folder)}) as daemon:
        daemon.until(lambda: len(states(daemon)) > 1)
        daemon.until(lambda: set(states(daemon).values()) <= {"ok", "missing", "no_devices"})
        daemon.until(lambda: not list(descendants(daemon.pid)))
        assert states(daemon)[HOST.name] == "ok"
        assert states(daemon)["mthreads-gmi"] == "missing"
        threads = len(list(Path(f"/proc/{daemon.pid}/task").iterdir()))
        daemon.until(lambda: wake_ups_a_second(daemon.pid) < MAX_WAKE_UPS_A_SECOND)
        assert list(descendants(daemon.pid)) == []
        assert len(list(Path(f"/proc/{daemon.pid}/task").iterdir())) == threads
        tools.prints("mthreads-gmi", "no such card\n", status=1)
        daemon.until(lambda: states(daemon)["mthreads-gmi"] == "failed")
