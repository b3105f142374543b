"""The simulated last half hour of a node: the history that a running daemon would have kept."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import pytest

from telemetry_daemon.config.settings import Settings
from telemetry_daemon.simulate.node import PAST_SECONDS, DemoNode
from telemetry_daemon.state.accumulate import Accumulator
from telemetry_daemon.state.attribution import Attribution
from telemetry_daemon.state.history import History
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_exporters.judgement.verdict import judge
from telemetry_parsers.metrics import BY_KEY
from telemetry_parsers.model import Capture, Report, Snapshot
from telemetry_parsers.past import KEPT, SLOT_SECONDS, SLOTS, Past
from telemetry_parsers.readings import Readings

NOW = 50_000.0
WALL = 1.8e9


@dataclass
class Lived:
    """A node after its simulated past: the current snapshot and history, all captures and snapshots."""

    snapshot: Snapshot
    past: Past
    captures: list[Capture] = field(default_factory=list)
    seen: list[Snapshot] = field(default_factory=list)


def lived(cards: str, faults: str | None = None) -> Lived:
    clock = Clock(lambda: NOW, lambda: WALL, lambda: 0.0)
    captures: list[Capture] = []
    seen: list[Snapshot] = []

    def keep(capture: Capture, _report: Report | None) -> None:
        captures.append(capture)

    node = DemoNode(cards, clock, keep, faults, PAST_SECONDS)
    history = History(node.clock)
    store = Store("demo", node.clock, (), Accumulator(None, history), attribution=Attribution(node.clock))
    store.set_change_callback(lambda: seen.append(store.snapshot()))
    settings = Settings()
    settings = replace(settings, attribution=replace(settings.attribution, enabled=True))
    node.start_filling(store, history, node.sources(settings))
    assert (node.clock.monotonic(), node.clock.wall()) == (NOW, WALL)
    return Lived(store.snapshot(), history.past(), captures, seen)


@pytest.fixture(scope="module")
def usual() -> Lived:
    return lived("")


def values(snapshot: Snapshot, metric: str) -> dict[tuple[str, str], float]:
    return {
        (device.id, reading.label): reading.value
        for device in snapshot.devices
        for reading in device.readings
        if reading.metric == metric and isinstance(reading.value, float)
    }


def test_each_card_has_a_full_history_within_limits(usual: Lived) -> None:
    assert len(usual.past.devices) == len(usual.snapshot.devices) == 8
    assert SLOTS - 2 <= usual.past.slots <= SLOTS
    assert usual.past.start + SLOT_SECONDS * usual.past.slots == pytest.approx(WALL, abs=2 * SLOT_SECONDS)
    for device in usual.snapshot.devices:
        series = usual.past.devices[device.id]
        assert set(KEPT) == series.keys()
        numbers = {metric: [value for value in series[metric].last if not math.isnan(value)] for metric in KEPT}
        assert min(map(len, numbers.values())) > 0.95 * usual.past.slots
        assert max(numbers["power_watts"]) <= numbers["power_cap_watts"][0]
        assert 0.0 <= min(numbers["utilization_ratio"]) <= max(numbers["utilization_ratio"]) <= 1.0
        assert 20.0 < min(numbers["temperature_celsius"]) <= max(numbers["temperature_celsius"]) < 100.0
        assert device.simulated


def test_counters_never_fall_and_energy_matches_power(usual: Lived) -> None:
    before: dict[tuple[str, str, str], float] = {}
    for snapshot in usual.seen:
        for device in snapshot.devices:
            for reading in device.readings:
                if BY_KEY[reading.metric].kind == "counter" and isinstance(reading.value, float):
                    key = (device.id, reading.metric, reading.label)
                    assert reading.value >= before.get(key, 0.0)
                    before[key] = reading.value
    for (device_id, _), joules in values(usual.snapshot, "energy_estimated_joules_total").items():
        watts = usual.past.devices[device_id]["power_watts"].last
        integral = SLOT_SECONDS * sum(value for value in watts if not math.isnan(value))
        assert joules == pytest.approx(integral, rel=0.03)


def test_owners_have_processes_and_memory(usual: Lived) -> None:
    owners = [allocation for device in usual.snapshot.devices for allocation in device.allocations]
    assert {allocation.owner.kind for allocation in owners} == {"job", "pod"}
    assert all(allocation.owner.user.isalpha() for allocation in owners if allocation.owner.kind == "job")
    assert all(allocation.is_used and WALL - allocation.started > 0.0 for allocation in owners)
    for device in usual.snapshot.devices:
        if device.allocations:
            held = sum(allocation.memory_used_bytes or 0.0 for allocation in device.allocations)
            assert held == pytest.approx(Readings.of(device.readings).value("memory_used_bytes"), rel=0.01)
            assert all(process.owner and process.memory_used_bytes for process in device.processes)


def test_demo_has_one_incident_and_a_drill_has_none(usual: Lived) -> None:
    words = {
        device.index: {finding.word for finding in findings}
        for device, findings in zip(usual.snapshot.devices, judge(usual.snapshot).values(), strict=True)
    }
    assert "throttled by heat" in words[2]
    heat = usual.past.devices[usual.snapshot.devices[2].id]["temperature_celsius"].last
    assert heat[60] < 80.0 < heat[-1]
    drill = lived("4xnvidia", "lost,hot,xid,hung,flapping")
    assert not drill.past.events
    assert {finding.word for findings in judge(drill.snapshot).values() for finding in findings} <= {
        "ok",
        "at power cap",
    }


def test_start_polls_do_not_grow_with_cards(usual: Lived) -> None:
    many = lived("48xnvidia")
    assert len(many.captures) < len(usual.captures) < SLOTS
    assert len(many.past.devices) == 48
