"""A disk that fills up and is emptied again under a daemon that runs on."""

from __future__ import annotations

import json
from pathlib import Path

from faults_kit import TOOL, SmallDisk, series, tool_node

UP = "accelerator_up{"


def test_what_was_not_remembered_is_once_there_is_room(tmp_path: Path, disk: SmallDisk) -> None:
    state = disk.folder / "state"
    daemon, _ = tool_node(tmp_path)
    daemon.environment = {**daemon.environment, "TELEMETRY_STATE_DIRECTORY": str(state)}
    disk.fill()
    with daemon:
        daemon.until_state(TOOL, "ok")
        daemon.until(lambda: daemon.logged("devices will not be remembered"))
        assert not (state / "devices.json").exists()
        disk.empty()
        daemon.until((state / "devices.json").exists)
        remembered = json.loads((state / "devices.json").read_text())["devices"]
        assert len(remembered) == len(series(daemon, UP))
        assert daemon.stop()[0] == 0
        assert daemon.logged("devices will not be remembered") == 1
        assert [each.name for each in state.iterdir()] == ["devices.json"]
