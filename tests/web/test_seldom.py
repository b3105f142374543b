"""Log lines that any client can cause come seldom, and say how many were left out."""

from __future__ import annotations

import logging
import time

import pytest

from telemetry_daemon.web.seldom_logger import SeldomLogger


def test_one_line_in_an_interval_and_the_next_tells_of_the_others(caplog: pytest.LogCaptureFixture) -> None:
    seldom = SeldomLogger(logging.getLogger("test.seldom"), interval_seconds=0.2)
    for number in range(5):
        seldom.warning("event %d", number)
    time.sleep(0.25)
    seldom.warning("event %d", 5)
    time.sleep(0.25)
    seldom.warning("event %d", 6)
    assert [record.getMessage() for record in caplog.records] == [
        "event 0",
        "event 5 (and 4 more since the last such line)",
        "event 6",
    ]
