"""Half an hour without a store, then restarts of either side: every scraped sample is stored once."""

import contextlib
import os
import signal
from pathlib import Path

import pytest

from deploy.outages import (
    Pair,
    Target,
    agent_of,
    all_pairs,
    all_sent,
    outage,
    prometheus_store,
    replaced,
    scraped,
    stores_of,
)
from kits.web_server import make_pki

# With a scrape per second, half an hour of real time. OUTAGE_SECONDS=60 is a short run.
OUTAGE_SECONDS = int(os.environ.get("OUTAGE_SECONDS", "1800"))
TIMES = 6
CUT_SECONDS = 20
pytestmark = [
    pytest.mark.needs("prometheus", "vmagent", "victoria-metrics"),
    pytest.mark.timeout(2 * OUTAGE_SECONDS + 1200),
]


@pytest.mark.parametrize(
    ("kind", "seconds"), [("prometheus", 2 * CUT_SECONDS), ("prometheus", 5 * CUT_SECONDS), ("vmagent", 30)]
)
def test_no_sample_is_lost_in_a_long_outage(tmp_path: Path, kind: str, seconds: int) -> None:
    """docs/agents.md: a Prometheus agent survives twice its truncation interval; a vmagent crash loses two scrapes."""
    pki = make_pki(tmp_path)
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(prometheus_store(tmp_path / "store", pki))
        target = stack.enter_context(Target().running())
        agent = agent_of(kind, tmp_path / "agent", target.address, store, pki)
        if kind == "prometheus":
            # Its log is truncated every 20 s, and only a few samples are in memory.
            agent.command = [word.replace("=12h", f"={CUT_SECONDS}s") for word in agent.command]
            config = agent.folder / "prometheus.yml"
            small = {"max_samples_per_send: 2000": "max_samples_per_send: 20", "capacity: 10000": "capacity: 40"}
            config.write_text(replaced(config.read_text(), {**small, "max_shards: 20": "max_shards: 1"}))
        pair = Pair("agent", stack.enter_context(agent), target, store)
        scraped([pair], 3 * CUT_SECONDS)
        store.end(store.crash)
        scraped([pair], seconds)
        scrapes = target.last
        if kind == "vmagent":
            pair.restart(signal.SIGKILL)
        store.start()
        scraped([pair], CUT_SECONDS)
        pair.wait_until_sent()
        kept = {sample.value for sample in store.samples("scrape_number", "agent")}
        lost = len(set(range(1, scrapes)) - kept)
        assert lost > 2 if seconds > 2 * CUT_SECONDS else lost <= 2 * (kind == "vmagent")


def test_no_sample_is_lost_in_outages_with_restarts(tmp_path: Path) -> None:
    with all_pairs(tmp_path) as pairs:
        scraped(pairs, 2)
        outage(pairs, TIMES, OUTAGE_SECONDS // TIMES)
        for _ in range(TIMES // 2):
            all_sent(pairs)
            for pair in pairs:
                pair.restart(signal.SIGTERM)
            scraped(pairs, 5)
            for store in stores_of(pairs):
                store.restart(store.crash)
        all_sent(pairs)
        assert [line for pair in pairs for line in pair.complaints()] == []
