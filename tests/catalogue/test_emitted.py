"""Every row of the catalogue is emitted by something, or stands on a list that can only get shorter."""

from __future__ import annotations

import json
from pathlib import Path

from telemetry_daemon.readers.base import Targets
from telemetry_daemon.simulate.demo import DemoNode
from telemetry_daemon.simulate.source import simulated_sources
from telemetry_parsers.metrics import BY_KEY, CATALOGUE
from telemetry_parsers.model import VENDORS

GOLDEN = Path(__file__).parent.parent / "golden"
# Made by merge, the accumulator and the daemon, whose own tests show them.
MADE_BY_US = {
    "info",
    "up",
    "memory_used_ratio",
    "busy_seconds_total",
    "energy_estimated_joules_total",
    "events_total",
    "event_last_timestamp_seconds",
    *(metric.key for metric in CATALOGUE if metric.scope == "daemon"),
}
# Rows that only the simulator emits so far: their sources come vendor by vendor, each with its captures.
ONLY_SIMULATED = {
    "compute_units", "ecc_corrected_total", "ecc_uncorrected_total", "energy_joules_total", "health",
    "link_receive_bytes_total", "link_transmit_bytes_total", "link_up", "memory_activity_ratio",
    "memory_bandwidth_ratio", "memory_reserved_bytes", "pcie_receive_bytes_total", "pcie_replays_total",
    "pcie_transmit_bytes_total", "performance_level", "power_cap_min_watts", "power_instant_watts",
    "recovery_action", "remapped_rows", "row_remap_failed", "row_remap_pending",
    "temperature_margin_celsius", "throttled", "throttled_seconds_total",
}  # fmt: skip
NOBODY_YET = {
    "link_crc_errors_total", "link_recovery_errors_total", "link_replay_errors_total",
    "power_average_watts", "rank_info", "sm_active_ratio", "sm_occupancy_ratio", "suspended",
    "temperature_critical_celsius", "temperature_shutdown_celsius", "temperature_slowdown_celsius",
    "tensor_active_ratio",
}  # fmt: skip


def from_captures() -> set[str]:
    reports = [json.loads(path.read_text()) for path in GOLDEN.rglob("*.json")]
    return {reading["metric"] for report in reports for reading in report["readings"]}


def from_simulator() -> set[str]:
    node = DemoNode(tuple((vendor, 1) for vendor in VENDORS))
    found = set()
    for source in simulated_sources(node):
        for poll in source.parser.polls:
            report = source.parser.parse(source.reader.read(poll, Targets()))
            found |= {reading.metric for reading in report.readings}
    return found


def test_what_is_emitted_is_in_the_catalogue():
    """Neither a capture nor the simulator gives a metric that the catalogue lacks."""
    assert (from_captures() | from_simulator()) - set(BY_KEY) == set()


def test_every_row_is_emitted_or_listed():
    """A row that is new, or that a capture has begun to emit, has to be put in or taken off its list."""
    captured, simulated = from_captures(), from_simulator()
    rest = set(BY_KEY) - captured - MADE_BY_US
    assert (rest & simulated, rest - simulated) == (ONLY_SIMULATED, NOBODY_YET)
