"""Output of commands on a node with NVIDIA GPUs."""

import json
from pathlib import Path
from typing import Any

import pytest

from kits.command_line import run_main
from kits.fake_nvml.library import FakeNvml

pytestmark = pytest.mark.needs("cc")


def snapshot(fake: FakeNvml) -> Any:
    done = run_main("snapshot", "--all", "--format", "json", "--source", "nvml", environment=fake.environment)
    return json.loads(done.stdout)


def test_card_with_instances_is_shown_with_them(tmp_path: Path) -> None:
    card, *parts = snapshot(FakeNvml(tmp_path, "h100-mig"))["devices"]
    assert "utilization_ratio" not in card["readings"]
    assert [part["parent"] for part in parts] == [card["id"]] * len(parts)
    # Counted between two samples, which one snapshot takes.
    assert all(isinstance(part["readings"]["utilization_ratio"], float) for part in parts)
    assert not any("power_watts" in part["readings"] for part in parts)


def test_doctor_ignores_absences_that_instances_explain(tmp_path: Path) -> None:
    done = run_main("doctor", "--source", "nvml", environment=FakeNvml(tmp_path, "a100-mig").environment)
    assert (done.status, done.stderr) == (0, "")
    _, _, nvml_section = done.stdout.partition("nvml: ok")
    assert "utilization_ratio" in nvml_section
    for metric in ("clock_hertz", "temperature_celsius core", "ecc_enabled", "link_up"):
        assert metric not in nvml_section
