"""The snapshot of a simulated node, the same at every run: each poll done a few times, 15 simulated seconds apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from telemetry_daemon.readers.base import Targets
from telemetry_daemon.simulate.demo import parse_demo
from telemetry_daemon.simulate.source import simulated_sources
from telemetry_daemon.state.accumulate import Accumulator
from telemetry_daemon.state.health import SourceFacts, judge
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_parsers.model import Snapshot

_BEGIN = 1_768_176_000.0
_STEP = 15.0


def demo_snapshots(cards: str, times: int = 4) -> Sequence[Snapshot]:
    """The node's snapshots after each round of polls; `cards` is as `--demo` takes it."""
    now = [0.0]
    clock = Clock(lambda: now[0], lambda: _BEGIN + now[0])
    store = Store("node1", clock, accumulator=Accumulator())
    sources = simulated_sources(parse_demo(cards), seed=3, clock=clock)
    for source in sources:
        store.add_source(SourceFacts(source.parser.name, source.parser.vendor, source.parser.gives))
    snapshots = []
    for turn in range(times):
        now[0] = turn * _STEP
        for source in sources:
            for poll in source.parser.polls:
                read = source.reader.read(poll, Targets())
                # How long the simulator took differs from run to run.
                capture = replace(
                    read, monotonic_time=now[0], wall_time=_BEGIN + now[0], seconds=0.01, cpu_seconds=0.001
                )
                report = source.parser.parse(capture) if capture.failure is None else None
                store.put(source.parser.name, poll, capture, report, judge(capture, report, 0), 3600.0)
        snapshots.append(store.snapshot())
    return snapshots


def demo_snapshot(cards: str) -> Snapshot:
    """The last of them."""
    return demo_snapshots(cards)[-1]
