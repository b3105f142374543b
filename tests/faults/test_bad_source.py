"""A source that invents devices gets a bounded part of the page, affects no other source, and is reported."""

import json
from pathlib import Path

import pytest

from faults.bad_source import FLOOD, fill_state, flooded_node, honest_readings
from kits.command_line import run_main
from kits.daemon import Daemon
from kits.tool_node import series, tool_node
from telemetry_parsers import bounds

pytestmark = pytest.mark.installed

SHOWN_AT_MOST = bounds.MAX_DEVICES + bounds.MAX_LOST


def refused(daemon: Daemon) -> float:
    line = series(daemon, f'telemetry_devices_refused{{source="{FLOOD}"}}')
    return float(line[0].rpartition(" ")[2]) if line else 0.0


def invented(daemon: Daemon) -> list[str]:
    return [line for line in series(daemon, "accelerator_up{") if 'vendor="acme"' in line]


def test_a_plugin_that_invents_hundreds_of_devices_at_each_poll(tmp_path: Path) -> None:
    with flooded_node(tmp_path, 400) as daemon:
        daemon.until(lambda: refused(daemon) > 0)
        readings = honest_readings(daemon)
        assert len(invented(daemon)) <= SHOWN_AT_MOST
        assert [line for line in readings if line.startswith("accelerator_temperature_celsius")]
        document = daemon.source(FLOOD)
        assert len(document["problems"]) <= bounds.MAX_PROBLEMS + 1
        daemon.until(lambda: daemon.logged("too many kinds of problems"))
        before = len(daemon.lines)
        daemon.until(lambda: refused(daemon) > 6 * bounds.MAX_DEVICES)
        daemon.logs("reported devices, only the")
        assert len(daemon.lines) - before < 10
        assert daemon.stop()[0] == 0
    remembered = json.loads((tmp_path / "state" / "devices.json").read_text())["devices"]
    assert len([device for device in remembered if device["vendor"] == "acme"]) <= SHOWN_AT_MOST


@pytest.mark.parametrize("devices", [1_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_a_state_file_of_many_devices_is_pruned_and_forgotten(tmp_path: Path, devices: int) -> None:
    path = fill_state(tmp_path, devices)
    daemon, _ = tool_node(tmp_path)
    config = ("--config", str(daemon.config_path))
    with daemon:
        daemon.until(lambda: honest_readings(daemon))
        daemon.logs("too many recorded devices")
        assert len(invented(daemon)) == bounds.MAX_LOST
        assert [line for line in invented(daemon) if 'id="ACME-000000000"' in line]
        assert run_main("forget", "--all-lost", "--vendor", "amd", *config)[:2] == (0, "forgot 0 lost devices\n")
        assert run_main("forget", "ACME-000000000", *config)[:2] == (0, "forgot ACME-000000000\n")
        assert len(invented(daemon)) == bounds.MAX_LOST - 1
        assert run_main("forget", "--all-lost", *config)[0] == 0
        assert invented(daemon) == []
        assert series(daemon, "accelerator_up{")
        assert daemon.stop()[0] == 0
    assert path.stat().st_size < 200_000
