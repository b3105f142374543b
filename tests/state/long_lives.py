"""20,000 lives in which anything may change, and a day of the simulator: as if nothing were kept from one poll to the next."""

from __future__ import annotations

from dataclasses import replace

import pytest

from state.lives import Forgetful, Life, compare
from telemetry_daemon.config.settings import Settings
from telemetry_daemon.polling import schedule
from telemetry_daemon.simulate.node import DemoNode
from telemetry_daemon.state.health import SourceFacts

LIVES, STEPS = 20_000, 10
DAY_SECONDS, STEP_SECONDS = 24 * 3600.0, 15.0
DEMO = "4xnvidia,2xhygon,2xascend"


@pytest.mark.timeout(3600)
def test_20_000_lives_are_those_of_stores_that_keep_nothing() -> None:
    for seed in range(1_000_000, 1_000_000 + LIVES):
        compare(seed, STEPS)


@pytest.mark.timeout(3600)
def test_the_pages_of_a_day_of_the_simulator_are_those_of_a_store_that_keeps_nothing() -> None:
    kept, whole = Life(), Forgetful()
    sources = DemoNode(DEMO, kept.clock).sources(Settings())
    for source in sources:
        for life in (kept, whole):
            life.store.add_source(SourceFacts(source.name, source.parser.vendor, source.parser.gives))
    asked: dict[tuple[str, str], float] = {}
    pages = 0
    while kept.now < DAY_SECONDS:
        kept.now = whole.now = kept.now + STEP_SECONDS
        for source in sources:
            for poll in source.parser.polls:
                interval = max(STEP_SECONDS, schedule.base_interval(poll, source.settings))
                if kept.now - asked.get((source.name, poll.name), -interval) < interval:
                    continue
                asked[source.name, poll.name] = kept.now
                answer = source.ask(poll, kept.store.targets(source.name))
                # The readers look at the real clock.
                capture = replace(answer.capture, monotonic_time=kept.now, wall_time=1e9 + kept.now)
                for life in (kept, whole):
                    life.store.put(source.name, poll, capture, answer.report, answer.result, poll.interval)
        assert kept.page() == whole.page(), f"at {kept.now} s"
        pages += 1
    print(f"{pages} pages of {len(kept.page())} bytes are the same")
