"""Agents that push: the store stops and returns, and every scraped sample is stored once."""

from pathlib import Path

import pytest

from deploy.outages import all_pairs, all_sent, outage, scraped

pytestmark = pytest.mark.needs("prometheus", "vmagent", "victoria-metrics")


def test_every_sample_is_stored_once(tmp_path: Path) -> None:
    """Over TLS and with a password, as in the files; long_outages.py does this for half an hour."""
    with all_pairs(tmp_path) as pairs:
        scraped(pairs, 2)
        outage(pairs, 1, 2)
        scraped(pairs, 2)
        all_sent(pairs)
        assert [line for pair in pairs for line in pair.complaints()] == []
