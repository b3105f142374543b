"""Owners and steps of a demo: shown if enabled, and consistent with the cards."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from kits.daemon import Daemon
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.simulate.demo import parse_demo
from telemetry_daemon.simulate.jobs import steps_reader
from telemetry_daemon.simulate.simulation import FaultRates
from telemetry_daemon.simulate.source import SimulatedSource, simulated_sources
from telemetry_daemon.times import Clock
from telemetry_parsers import steps
from telemetry_parsers.card_peaks import peak_of
from telemetry_parsers.ownership import StepCounts
from telemetry_parsers.past import SLOTS

OFF = {"TELEMETRY_ATTRIBUTION_ENABLED": "false", "TELEMETRY_STEPS_ENABLED": "false"}


@pytest.mark.parametrize("environment", [{}, OFF], ids=["as usual", "switched off"])
def test_demo_has_history_owners_and_steps(tmp_path: Path, environment: Mapping[str, str]) -> None:
    with Daemon(tmp_path, "", ("--demo", "8xnvidia"), environment) as daemon:
        daemon.until(lambda: len(daemon.document()["devices"]) == 8)
        if not environment:
            daemon.until(lambda: 'part="communication"' in (page := daemon.page()) and "allocation_energy" in page)
        assert ("telemetry_steps_total{" in daemon.page()) == (not environment)
        cards = daemon.document()["devices"]
        history = json.loads(daemon.get("/api/v1/history")[1])
    assert history["slots"] > SLOTS - 10
    kinds = [[allocation["owner"]["kind"] for allocation in card["allocations"]] for card in cards]
    assert (["job"] in kinds and ["pod"] in kinds) == (not environment)
    assert not (tmp_path / "state" / "ledger.json").exists()


class Life:
    """A node of simulated cards without faults, in fast motion."""

    def __init__(self, faults: FaultRates) -> None:
        self.now = 0.0
        clock = Clock(lambda: self.now, lambda: 1.7e9 + self.now)
        self.source: SimulatedSource = simulated_sources(parse_demo("8xh100"), faults=faults, clock=clock)[0]
        self.steps = steps_reader([self.source.reader], clock)

    def after(self, seconds: float) -> list[StepCounts]:
        self.now += seconds
        self.source.reader.read(self.source.parser.polls[0], Targets())
        report = steps.parse(self.steps.read(steps.PARSER.polls[0], Targets()))
        assert report.outcome == "ok"
        assert report.problems == ()
        return list(report.steps)


def test_step_counters_rise_with_ranks_in_step() -> None:
    life = Life(FaultRates())
    peak = peak_of("NVIDIA H100 80GB HBM3")
    assert peak is not None
    before: dict[tuple[str, str], StepCounts] = {}
    rises = 0
    for _ in range(360):
        counts = life.after(10.0)
        assert len({(count.job_id, count.steps) for count in counts}) == len({count.job_id for count in counts})
        for count in counts:
            last = before.get((count.job_id, count.rank))
            if last is not None:
                rises += count.steps > last.steps
                assert count.steps >= last.steps
                assert all(now.seconds >= then.seconds for now, then in zip(count.seconds, last.seconds, strict=True))
                assert ((count.flops or 0.0) - (last.flops or 0.0)) / 10.0 <= (peak.flops("bf16") or 0.0)
        before = {(count.job_id, count.rank): count for count in counts}
    assert rises > 100


def test_slow_card_slows_its_job() -> None:
    def paces(faults: FaultRates) -> float:
        life = Life(faults)
        return max(_pace(life.after(10.0), life.after(10.0)) for _ in range(90))

    def _pace(before: list[StepCounts], after: list[StepCounts]) -> float:
        steps_before = {(count.job_id, count.rank): count.steps for count in before}
        return max(
            (count.steps - steps_before.get((count.job_id, count.rank), count.steps) for count in after), default=0.0
        )

    assert 0 < paces(FaultRates(slow_nodes=3600.0)) < 0.75 * paces(FaultRates())
