"""Endless output is cut off, and its memory returns to the system."""

from pathlib import Path

import pytest

from kits.fake_tools import ToolFolder
from kits.processes import rss_mib
from kits.tool_node import TOOL, tool_node, tool_text

pytestmark = pytest.mark.installed


@pytest.mark.parametrize(
    "flood", [ToolFolder.prints_for_ever, pytest.param(ToolFolder.complains_for_ever, marks=pytest.mark.long)]
)
def test_after_a_flood_the_daemon_is_as_small_as_before(tmp_path: Path, flood) -> None:
    daemon, tools = tool_node(tmp_path)
    with daemon:
        daemon.until_state(TOOL, "ok")
        daemon.until(lambda: len(tools.calls(TOOL)) > 3)
        before = rss_mib(daemon.pid)
        flood(tools, TOOL)
        daemon.until(lambda: daemon.source(TOOL).get("reason") == "too_much_output")
        seen = len(tools.calls(TOOL))
        daemon.until(lambda: len(tools.calls(TOOL)) > seen + 3)
        tools.prints(TOOL, tool_text())
        daemon.until_state(TOOL, "ok")
        assert rss_mib(daemon.pid) < before + 4
        assert daemon.stop()[0] == 0
