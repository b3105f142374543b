"""Half an hour without a store, then half a dozen restarts of either side: every sample that was scraped is stored once."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from deploy.outages import Pair, all_pairs, restart_queues, scraped, stores_of

# A scrape a second: a real half hour. OUTAGE_SECONDS=60 is a look.
OUTAGE_SECONDS = int(os.environ.get("OUTAGE_SECONDS", "1800"))
TIMES = 6
pytestmark = [
    pytest.mark.needs("prometheus", "vmagent", "victoria-metrics", "openssl"),
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
