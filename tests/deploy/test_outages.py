"""Agents that push: the store goes away and comes back, and every sample that was scraped is in it once."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.outages import all_pairs, restart_queues, scraped, stores_of

pytestmark = pytest.mark.needs("prometheus", "vmagent", "victoria-metrics")


def test_every_sample_is_stored_once(tmp_path: Path) -> None:
    """Over TLS and with a password, as the files say; long_outages.py does the same for half an hour."""
    with all_pairs(tmp_path) as pairs:
        scraped(pairs, 2)
        for store in stores_of(pairs):
            store.end(store.crash)
        scraped(pairs, 2)
        restart_queues(pairs)
        for store in stores_of(pairs):
            store.start()
        scraped(pairs, 2)
        for pair in pairs:
            pair.wait_until_sent()
        assert [line for pair in pairs for line in pair.complaints()] == []
