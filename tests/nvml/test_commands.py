"""What an operator sees of a node whose GPUs are NVIDIA's: one reading of everything, and how the source fares."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kits.daemon import run
from kits.fake_nvml.library import FakeNvml

pytestmark = pytest.mark.needs("cc")


def output_of(profile: str, folder: Path, *arguments: str) -> str:
    """What a command says of that node."""
    environment = {"LD_LIBRARY_PATH": FakeNvml(folder, profile).environment["LD_LIBRARY_PATH"]}
    status, out, error = run(*arguments, "--source", "nvml", environment=environment)
    assert (status, error) == (0, "")
    return out


def snapshot(profile: str, folder: Path) -> list[dict[str, Any]]:
    devices: list[dict[str, Any]] = json.loads(output_of(profile, folder, "snapshot", "--all", "--format", "json"))[
        "devices"
    ]
    return devices


def test_one_snapshot_tells_what_is_counted_between_two_samples(tmp_path: Path) -> None:
    for device in snapshot("h100", tmp_path):
        readings = device["readings"]
        assert (readings["sm_active_ratio"], readings["tensor_active_ratio"]) == (0.914, 0.63)
        assert readings["bar1_total_bytes"] == 2**37


def test_a_card_in_parts_and_its_parts(tmp_path: Path) -> None:
    card, *parts = snapshot("h100-mig", tmp_path)
    assert "utilization_ratio" not in card["readings"]
    assert [part["parent"] for part in parts] == [card["id"]] * len(parts)
    assert all(isinstance(part["readings"]["utilization_ratio"], float) for part in parts)
    assert not any("power_watts" in part["readings"] for part in parts)


def test_the_doctor_calls_nothing_absent_that_the_card_tells_for_its_parts(tmp_path: Path) -> None:
    lines = output_of("a100-mig", tmp_path, "doctor").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("nvml: ok"))
    said = " ".join(lines[start:])
    assert "utilization_ratio" in said
    for metric in ("clock_hertz", "temperature_celsius core", "ecc_enabled", "link_up"):
        assert metric not in said
