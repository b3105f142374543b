"""Log lines that any client can cause come seldom, and say how many were left out."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from telemetry_daemon.web import seldom_logger


def test_one_line_in_an_interval_and_the_next_counts_the_others(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(seldom_logger, "time", SimpleNamespace(monotonic=lambda: now))
    seldom = seldom_logger.SeldomLogger(logging.getLogger("test.seldom"))
    for number in range(5):
        seldom.warning("event %d", number)
    for number in (5, 6):
        now += 59.9
        seldom.warning("left out")
        now += 0.1
        seldom.warning("event %d", number)
    assert [record.getMessage() for record in caplog.records] == [
        "event 0",
        "event 5 (and 5 more since the last such line)",
        "event 6 (and 1 more since the last such line)",
    ]
