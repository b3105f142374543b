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
from kits.waiting import PATIENCE_SECONDS

HOUR = 3600.0
MONTH = 30 * 24 * HOUR
PROGRAM = Path(__file__).parent / "polling_process.py"
JOBS = 3


class Polling:
    """The child process, read line by line."""

    def __init__(self, process):
        self._process = process
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
        assert self._process.wait(PATIENCE_SECONDS) == 0
        return line


@pytest.mark.needs("cc")
def test_no_poll_is_missed_by_more_than_one_interval_when_the_clock_is_set(tmp_path):
    clock = SteppedClock(tmp_path)
    environment = {**os.environ, **clock.environment(), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(PROGRAM)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    with subprocess.Popen(command, **pipes) as process:
        polling = Polling(process)
        try:
            assert polling.run_seconds(3) > 0
            clock.step(-HOUR)
            assert polling.run_seconds(6) >= 2 * JOBS
            clock.step(MONTH)
            assert polling.run_seconds(6) >= 2 * JOBS
            assert abs(polling.wall - time.time() - MONTH + HOUR) < HOUR / 2, "the clock was not set at all"
            summary = polling.end()
        finally:
            process.kill()
    clock.close()
    assert polling.missed() <= 1
    assert len(polling.beats) == JOBS
    assert summary["steps"] == [-HOUR, MONTH]
    assert summary["guard_ticks"] > 2 * JOBS
    # Two calls for each run, one when a job is added and one for each time it is put back on its beat.
    assert summary["trigger_calls"] <= 2 * summary["runs"] + 3 * JOBS
