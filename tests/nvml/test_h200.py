"""Recordings of a real H200 (driver 580.159.04): readings equal nvidia-smi's, an Xid, and the reason of a slow step.

`h200/` contains the masked output of `telemetry record` and the flight recorder, and a trace of torch.profiler.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from kits.command_line import run_main

HERE = Path(__file__).parent / "h200"
RECORDING, TRACE = HERE / "load.jsonl.gz", HERE / "trace.json.gz"
FLIGHT = HERE / "20261126T105327Z-xid_31.jsonl.gz"
MIB = 1 << 20
# `nvidia-smi -q` within a second of the shown poll, and the permitted differences.
NVIDIA_SMI = [
    ("temperature_celsius", "core", 41, 0),
    ("temperature_celsius", "memory", 40, 0),
    ("utilization_ratio", None, 0.26, 0),
    ("memory_activity_ratio", None, 0.07, 0),
    ("memory_used_bytes", None, 1241 * MIB, MIB),
    ("memory_reserved_bytes", None, 616 * MIB, MIB),
    ("bar1_total_bytes", None, 262_144 * MIB, 0),
    ("power_watts", None, 372.88, 2),
    ("power_memory_watts", None, 58.25, 0.2),
    ("power_cap_watts", None, 700, 0),
    ("throttled_seconds_total", "sw_power_cap", 14.53, 0.2),
    ("clock_hertz", "memory", 3.201e9, 0),
    ("clock_max_hertz", "sm", 1.98e9, 0),
    ("performance_state", None, 0, 0),
    ("pcie_link_generation", None, 5, 0),
    ("temperature_margin_limit_celsius", "shutdown", -8, 0),
    ("recovery_action", "none", 1, 0),
]


def shown(*arguments: str | Path) -> dict[str, Any]:
    status, out, errors = run_main("snapshot", "--format", "json", *map(str, arguments))
    assert status == 0, errors
    (device,) = json.loads(out)["devices"]
    return dict(device)


def test_the_readings_are_those_of_nvidia_smi() -> None:
    device = shown("--replay", RECORDING, "--at", "10:52:56")
    readings = device["readings"]
    readings_shown = {
        (name, label): readings[name] if label is None else readings[name][label] for name, label, *_ in NVIDIA_SMI
    }
    assert readings_shown == {
        (name, label): pytest.approx(value, rel=1e-9, abs=tolerance) for name, label, value, tolerance in NVIDIA_SMI
    }
    (process,) = device["processes"]
    assert (process["name"], process["memory_used_bytes"], process["utilization_ratio"]) == (
        "python3",
        1232 * MIB,
        0.26,
    )
    # The program counted 220.5 TFLOP/s of bf16 over the whole of its time.
    work = readings["tensor_active_ratio"] * readings["flops_per_cycle"]["bf16"] * readings["clock_hertz"]["sm"]
    assert work == pytest.approx(220.5e12, rel=0.15)


def test_flight_file_has_the_captures_before_an_xid() -> None:
    """A program wrote to an unmapped address."""
    assert shown("--replay", FLIGHT, "--at", "30s")["condition"]["word"] != "xid_31"
    device = shown("--replay", FLIGHT)
    assert device["condition"] == {"word": "xid_31", "severity": "quiet"}


def test_cause_of_a_waiting_card_near_its_highest_clock_is_the_gap() -> None:
    """`sw_power_cap` all the time, at 1,950 of 1,980 MHz and 149 of 700 W, while the host makes random numbers."""
    status, out, errors = run_main("profile", str(TRACE), "--recording", str(RECORDING), "--format", "json")
    assert status == 0, errors
    document = json.loads(out)
    assert document["verdict"]["cause"] == "gap"  # once a step, 62 ms long
    assert document["devices"][0]["telemetry"]["throttled_seconds"]["sw_power_cap"] > 0
