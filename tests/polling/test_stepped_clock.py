"""Polls under a wall clock that is set an hour back and thirty days forward, in a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from kits.stepped_clock import SteppedClock

pytestmark = pytest.mark.needs("cc")

HOUR = 3600.0
MONTH = 30 * 24 * HOUR
PROGRAM = Path(__file__).parent / "polling_process.py"
JOBS = 3


class Polling:
    """The child process, read line by line."""

    def __init__(self, clock, mode):
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM), mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **clock.environment(), "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self.beats = defaultdict(list)
        self.wall = 0.0

    def _line(self):
        line = json.loads(self._process.stdout.readline())
        if "job" in line:
            self.beats[line["job"]].append(line["beat"])
        self.wall = line.get("wall", self.wall)
        return line

    def run_seconds(self, seconds):
        """Let the child live for some seconds by its monotonic clock; returns how often anything ran in them."""
        before, passed = self.runs(), 0
        while passed < seconds:
            passed += "second" in self._line()
        return self.runs() - before

    def runs(self):
        return sum(map(len, self.beats.values()))

    def missed(self):
        """The most beats that any job left out between two of its runs."""
        return max(b - a - 1 for beats in self.beats.values() for a, b in pairwise(beats))

    def end(self):
        """Let it end; returns its summary."""
        self._process.stdin.close()
        line = self._line()
        while "trigger_calls" not in line:
            line = self._line()
        assert self._process.wait(timeout=30) == 0
        self._process.stdout.close()
        return line

    def kill(self):
        self._process.kill()
        self._process.wait(timeout=30)
        self._process.stdin.close()
        self._process.stdout.close()


@pytest.fixture
def clock(tmp_path):
    clock = SteppedClock(tmp_path)
    yield clock
    clock.close()


@pytest.fixture
def polling(clock, request):
    polling = Polling(clock, request.param)
    yield polling
    polling.kill()


@pytest.mark.parametrize("polling", ["guarded"], indirect=True)
def test_no_poll_is_missed_by_more_than_one_interval_when_the_clock_is_set(clock, polling):
    assert polling.run_seconds(2) > 0
    clock.step(-HOUR)
    assert polling.run_seconds(4) >= 2 * JOBS
    clock.step(MONTH)
    assert polling.run_seconds(4) >= 2 * JOBS
    assert abs(polling.wall - time.time() - MONTH + HOUR) < HOUR / 2, "the clock was not set at all"
    summary = polling.end()
    assert polling.missed() <= 1
    assert len(polling.beats) == JOBS
    assert summary["steps"] == [-HOUR, MONTH]
    assert summary["guard_ticks"] > 2 * JOBS
    # Two calls for each run, one when a job is added and one for each time it is put back on its beat.
    assert summary["trigger_calls"] <= 2 * summary["runs"] + 3 * JOBS


@pytest.mark.parametrize("polling", ["bare"], indirect=True)
def test_without_the_guard_a_month_forward_costs_no_catching_up_but_an_hour_back_stops_the_polls(clock, polling):
    assert polling.run_seconds(2) > 0
    clock.step(MONTH)
    assert polling.run_seconds(4) >= 2 * JOBS
    assert polling.missed() <= 1
    clock.step(-HOUR)
    polling.run_seconds(2)
    assert polling.run_seconds(3) == 0, "this is what the guard is for"
    summary = polling.end()
    assert summary["trigger_calls"] <= 2 * summary["runs"] + JOBS
