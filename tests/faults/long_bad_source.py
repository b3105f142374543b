"""Twelve thousand invented devices at each poll, and a hundred thousand remembered, under the memory that the unit allows."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from faults.bad_source import fill_state, flooded_node, honest_readings
from faults.control_group import control_group
from kits.daemon import Daemon
from kits.processes import holdings, rss_mib
from kits.tool_node import series
from telemetry_parsers import bounds

INVENTED = 12_000
REMEMBERED = 100_000
SECONDS = 60.0
# MemoryMax= of deploy/systemd/telemetry.service.
LIMIT_BYTES = 512 << 20


def watched(daemon: Daemon, seconds: float) -> tuple[list[float], int]:
    """How long each scrape of these seconds took, and the longest page; the honest readings are in every one."""
    durations, longest = [], 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        page = daemon.page()
        durations.append(time.monotonic() - began)
        longest = max(longest, len(page))
        honest = [line for line in page.splitlines() if 'vendor="iluvatar"' in line]
        assert any(line.startswith("accelerator_utilization_ratio{") for line in honest)
        assert [line for line in honest if line.startswith("accelerator_up{") and not line.endswith(" 1.0")] == []
        time.sleep(0.05)
    return sorted(durations), longest


@pytest.mark.timeout(600)
def test_a_flood_of_devices_costs_its_own_source_only(tmp_path: Path) -> None:
    fill_state(tmp_path, REMEMBERED)
    with control_group("memory", "memory.limit_in_bytes", "memory.max", LIMIT_BYTES) as join:
        with flooded_node(tmp_path, INVENTED, prefix=join) as daemon:
            daemon.until(lambda: honest_readings(daemon))
            daemon.until(lambda: series(daemon, "telemetry_devices_refused{"))
            watched(daemon, SECONDS / 6)
            before, kept = rss_mib(daemon.pid), holdings(daemon.pid)
            durations, longest = watched(daemon, SECONDS)
            after = rss_mib(daemon.pid)
            status, seconds = daemon.stop()
        p99 = durations[int(0.99 * len(durations))]
        print(
            f"{len(durations)} scrapes, p99 {p99:.3f} s, worst {durations[-1]:.3f} s, page {longest / 1000:.0f} kB,"
            f" RSS {before:.0f} to {after:.0f} MiB, {kept}, ended in {seconds:.2f} s"
        )
        assert p99 < 1.0
        assert longest < 2_000_000
        assert after <= before * 1.1 + 8.0
        assert (status, seconds < 3.0) == (0, True)
    assert (tmp_path / "state" / "devices.json").stat().st_size < 2000 * bounds.MOST_DEVICES * 2
