"""Half an hour without a store, then half a dozen restarts of either side: every sample that was scraped is stored once."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.outages import (
    Pair,
    Target,
    all_pairs,
    prometheus_agent,
    prometheus_store,
    replaced,
    restart_queues,
    scraped,
    stores_of,
    vmagent,
)
from kits.web_server import make_pki

# A scrape a second: a real half hour. OUTAGE_SECONDS=60 is a look.
OUTAGE_SECONDS = int(os.environ.get("OUTAGE_SECONDS", "1800"))
TIMES = 6
CUT_SECONDS = 20
pytestmark = [
    pytest.mark.needs("prometheus", "vmagent", "victoria-metrics"),
    pytest.mark.timeout(2 * OUTAGE_SECONDS + 1200),
]


def half_an_hour_away(pairs: list[Pair]) -> None:
    """The stores are away; meanwhile the agents whose queue lies on disk are started anew, time and again."""
    for store in stores_of(pairs):
        store.end(store.crash)
    for _ in range(TIMES):
        scraped(pairs, OUTAGE_SECONDS // TIMES)
        restart_queues(pairs)
    for store in stores_of(pairs):
        store.start()
    all_sent(pairs)


def agents_restarted(pairs: list[Pair]) -> None:
    for pair in pairs:
        pair.restart(signal.SIGTERM)
    scraped(pairs, 5)


def stores_restarted(pairs: list[Pair]) -> None:
    for store in stores_of(pairs):
        store.restart(store.crash)
    all_sent(pairs)
    scraped(pairs, 5)


def all_sent(pairs: list[Pair]) -> None:
    for pair in pairs:
        pair.wait_until_sent()


@contextlib.contextmanager
def cut_often(folder: Path) -> Iterator[Pair]:
    """A Prometheus agent whose log is cut every 20 s, and whose memory holds a few samples only."""
    pki = make_pki(folder)
    with prometheus_store(folder / "store", pki) as store, Target().running() as target:
        agent = prometheus_agent(folder / "agent", "agent", target, store, pki)
        agent.command = [word.replace("=12h", f"={CUT_SECONDS}s") for word in agent.command]
        config = agent.folder / "prometheus.yml"
        small = {"max_samples_per_send: 2000": "max_samples_per_send: 20", "capacity: 10000": "capacity: 40"}
        config.write_text(replaced(config.read_text(), {**small, "max_shards: 20": "max_shards: 1"}))
        with agent:
            yield Pair("agent", agent, target, store)


@pytest.mark.parametrize(("cuts", "is_whole"), [(2, True), (5, False)])
def test_a_prometheus_agent_survives_twice_its_cuts_but_not_five_times(
    tmp_path: Path, cuts: int, is_whole: bool
) -> None:
    """As docs/agents.md says; after more, what waited is lost."""
    with cut_often(tmp_path) as pair:
        scraped([pair], 3 * CUT_SECONDS)
        pair.store.end(pair.store.crash)
        scraped([pair], cuts * CUT_SECONDS)
        pair.store.start()
        scraped([pair], CUT_SECONDS)
        pair.wait_until_sent()
        assert (pair.complaints() == []) is is_whole


def test_a_prometheus_agent_that_is_restarted_loses_what_waited(tmp_path: Path) -> None:
    with cut_often(tmp_path) as pair:
        scraped([pair], 2)
        pair.store.end(pair.store.crash)
        scraped([pair], 10)
        pair.restart(signal.SIGKILL)
        pair.store.start()
        scraped([pair], 2)
        pair.wait_until_sent()
        assert pair.complaints() != []


def test_a_crash_of_vmagent_costs_two_scrapes_at_most(tmp_path: Path) -> None:
    pki = make_pki(tmp_path)
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(prometheus_store(tmp_path / "store", pki))
        target = stack.enter_context(Target().running())
        agent = stack.enter_context(vmagent(tmp_path / "agent", "agent", target, store, pki))
        pair = Pair("agent", agent, target, store)
        scraped([pair], 2)
        store.end(store.crash)
        scraped([pair], 30)
        crashed = target.last
        pair.restart(signal.SIGKILL)
        store.start()
        scraped([pair], 3)
        pair.wait_until_sent()
        kept = {sample.value for sample in store.samples("scrape_number", "agent")}
        assert len(set(range(1, crashed)) - kept) <= 2


def test_half_an_hour_away_and_restarts(tmp_path: Path) -> None:
    with all_pairs(tmp_path) as pairs:
        scraped(pairs, 2)
        half_an_hour_away(pairs)
        for _ in range(TIMES // 2):
            agents_restarted(pairs)
            stores_restarted(pairs)
        all_sent(pairs)
        print(", ".join(f"{pair.name}: {pair.target.last} scrapes" for pair in pairs))
        assert [line for pair in pairs for line in pair.complaints()] == []
