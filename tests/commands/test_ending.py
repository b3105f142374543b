"""A command that is stopped stops its tools: a tool left behind would block its source for every user."""

import signal
import subprocess
from pathlib import Path

import pytest

from kits.daemon import COMMAND, bare_config, clean_environment
from kits.fake_tools import ToolFolder
from kits.waiting import comes_true


@pytest.mark.parametrize(
    ("command", "number"),
    [
        pytest.param("snapshot", signal.SIGTERM, id="timeout 20 telemetry snapshot"),
        pytest.param("snapshot", signal.SIGHUP, id="closed terminal", marks=pytest.mark.long),
        pytest.param("doctor", signal.SIGTERM, id="timeout 20 telemetry doctor", marks=pytest.mark.long),
        pytest.param("record", signal.SIGINT, id="Ctrl-C ends a recording"),
    ],
)
def test_signal_leaves_no_tool_behind(command: str, number: int, tmp_path: Path) -> None:
    tools = ToolFolder(tmp_path / "tools")
    tools.hangs("mthreads-gmi")
    running = subprocess.Popen(
        # pytest may run without some signals
        ["env", "--default-signal", *COMMAND, command, "--config", bare_config(tmp_path)],
        env=clean_environment(tools.environment),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        assert comes_true(lambda: bool(tools.pids("mthreads-gmi")))
        running.send_signal(number)
        _, errors = running.communicate(timeout=250)
        assert running.returncode == 128 + number
        assert errors.startswith(b"telemetry: recorded ") if command == "record" else errors == b""
        assert not any(Path(f"/proc/{pid}").exists() for pid in tools.pids("mthreads-gmi"))
    finally:
        running.kill()
        running.communicate()
        tools.end("mthreads-gmi")
