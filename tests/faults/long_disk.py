"""A disk that fills up and is emptied again under a running daemon."""

import json
from pathlib import Path

import pytest

from faults.small_disk import LoggingToFile, SmallDisk
from kits.tool_node import TOOL, series, tool_node, tool_text

UP = "accelerator_up{"


@pytest.mark.needs("root")
def test_what_was_not_remembered_is_once_there_is_room(tmp_path: Path, disk: SmallDisk) -> None:
    state = disk.folder / "state"
    daemon, _ = tool_node(tmp_path)
    daemon.environment = {**daemon.environment, "TELEMETRY_STATE_DIRECTORY": str(state)}
    disk.fill()
    with daemon:
        daemon.until_state(TOOL, "ok")
        daemon.until(lambda: daemon.logged("the devices cannot be saved"))
        assert not (state / "devices.json").exists()
        disk.empty()
        daemon.until((state / "devices.json").exists)
        remembered = json.loads((state / "devices.json").read_text())["devices"]
        assert len(remembered) == len(series(daemon, UP))
        assert daemon.stop()[0] == 0
        daemon.logs("the devices cannot be saved")
        assert [path.name for path in state.iterdir()] == ["devices.json"]


@pytest.mark.needs("root")
def test_a_log_without_room_loses_lines_and_nothing_else(tmp_path: Path, disk: SmallDisk) -> None:
    ready, tools = tool_node(tmp_path)
    daemon = LoggingToFile(tmp_path, ready.config, environment=ready.environment)
    daemon.log_path = disk.folder / "telemetry.log"
    with daemon:
        daemon.until_state(TOOL, "ok")
        disk.fill()
        for _ in range(2):
            tools.prints(TOOL, "nothing of any tool\n")
            daemon.until(lambda: daemon.source(TOOL)["state"] != "ok")
            tools.prints(TOOL, tool_text())
            daemon.until_state(TOOL, "ok")
        before = daemon.log_path.read_text()
        disk.empty()
        tools.prints(TOOL, "nothing of any tool\n")
        daemon.until(lambda: 'msg="log lines were lost"' in daemon.log_path.read_text())
        assert 'msg="log lines were lost"' not in before
        assert all(" level=" in line for line in daemon.log_path.read_text().splitlines() if line)
