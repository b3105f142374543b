"""Files of release 0.1.0 work with this release: configuration, devices and recordings."""

import json
import re
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kits.captures import ROOT
from kits.command_line import run_main
from kits.daemon import Daemon
from kits.fake_tools import ToolFolder

pytestmark = pytest.mark.installed

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LEFT = Path(__file__).parent / "release_0_1_0"
DEVICES = json.loads((LEFT / "devices.json").read_text())["devices"]
IDS = {device["id"]: device["vendor"] for device in DEVICES}
(LOST,) = (device["id"] for device in DEVICES if device["lost_since"] is not None)
ROW_OF_THE_LOST = re.compile(r"\| 1    Iluvatar.*?\n\+-*\+-*\+-*\+\n", re.DOTALL)


def printed(capture: str) -> str:
    return (ROOT / "tests/captures" / capture).read_text().partition("# ---\n")[2]


def ups(page: str) -> dict[str, float]:
    found = re.findall(r'^accelerator_up\{.*?\bid="([^"]+)".*\} ([01])\.0$', page, re.MULTILINE)
    return {name: float(value) for name, value in found}


def settings(section: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in section.items():
        if isinstance(value, dict) and name != "devices":
            yield from settings(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


@pytest.fixture
def tools(tmp_path: Path) -> ToolFolder:
    """Return the tools of that node, without its second die."""
    folder = ToolFolder(tmp_path / "tools")
    folder.prints("ixsmi", ROW_OF_THE_LOST.sub("", printed("ixsmi/table-two-dies-busy.txt")))
    folder.prints("mthreads-gmi", printed("mthreads-gmi/query-two-cards.txt"))
    return folder


def test_old_configuration_is_in_force(tmp_path: Path) -> None:
    (tmp_path / "web.yml").touch()
    (tmp_path / "parsers").mkdir()
    text = (LEFT / "telemetry.toml").read_text()
    file = tmp_path / "telemetry.toml"
    file.write_text(text.replace("/etc/telemetry/", f"{tmp_path}/").replace("/opt/parsers", f"{tmp_path}/parsers"))
    output = {command: run_main("config", command, "--config", str(file)) for command in ("check", "show")}
    assert [done.status for done in output.values()] == [0, 0], output["check"].stderr
    assert "the configuration is valid" in output["check"].stdout
    shown, given = (dict(settings(tomllib.loads(text))) for text in (output["show"].stdout, file.read_text()))
    assert {name: shown.get(name) for name in given} == given


def test_old_devices_keep_ids_and_loss(tmp_path: Path, tools: ToolFolder) -> None:
    state = tmp_path / "state"
    state.mkdir()
    # Lost a minute ago, because devices that are lost for a week are forgotten.
    now = [{**device, "lost_since": time.time() - 60 if device["id"] == LOST else None} for device in DEVICES]
    (state / "devices.json").write_text(json.dumps({"schema": "telemetry.devices/1", "devices": now}))
    fast = "[sources.ixsmi]\ninterval = 0.5\n"
    with Daemon(tmp_path, fast, environment={"PATH": tools.search_path}) as daemon:
        daemon.until(lambda: ups(daemon.page()) == {name: float(name != LOST) for name in IDS})
        tools.prints("ixsmi", printed("ixsmi/table-two-dies-busy.txt"))
        daemon.until(lambda: ups(daemon.page()) == dict.fromkeys(IDS, 1.0))
        assert daemon.logged("devices not loaded") == 0


def test_old_recordings_replay_the_same_readings(tmp_path: Path) -> None:
    wanted = (LEFT / "page.txt").read_text().splitlines()
    with Daemon(tmp_path, arguments=("--replay", str(LEFT / "recording.jsonl"))) as daemon:
        # A replay says that it is one.
        daemon.until(lambda: set(wanted) <= set(daemon.page().replace('replayed="true",', "").splitlines()))
