"""Without a free descriptor polls fail; afterwards everything continues and no source is lost."""

import resource
from pathlib import Path

from kits.processes import holdings
from kits.tool_node import TOOL, series, tool_node


def test_without_any_descriptor_polls_fail_and_come_back(tmp_path: Path) -> None:
    daemon, _ = tool_node(tmp_path)
    with daemon:
        daemon.until_state(TOOL, "ok")
        before = holdings(daemon.pid)
        soft, hard = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
        # The web server may accept one connection, but no pipe to a tool can be opened.
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (before.descriptors + 1, hard))
        daemon.until(lambda: daemon.source(TOOL)["state"] == "failed")
        source = daemon.source(TOOL)
        assert source["reason"] == "internal"
        assert any("Too many open files" in problem["text"] for problem in source["problems"])
        assert [line for line in series(daemon, "accelerator_") if f"source={TOOL}" in line] == []
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (soft, hard))
        daemon.until_state(TOOL, "ok")
        daemon.until(lambda: holdings(daemon.pid).at_most(before, more=2))
        assert daemon.stop()[0] == 0
