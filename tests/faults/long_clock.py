"""The time of day of a running daemon is set by hours and years: polls continue, and nothing is too old."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kits.daemon import Daemon
from kits.fake_tools import ToolFolder
from kits.stepped_clock import SteppedClock
from kits.tool_node import TOOL, series, tool_node, tool_text

pytestmark = pytest.mark.needs("cc")

HOUR = 3600.0
DAY = 24 * HOUR
STEPS = {
    "a second forward": 1.5,
    "an hour back": -HOUR,
    "a month forward": 30 * DAY,
    "a year back": -365 * DAY,
    "two years forward": 730 * DAY,
    "summer time ends": -HOUR,
}
READING = "accelerator_utilization_ratio{"


@pytest.fixture
def clock(tmp_path: Path) -> Iterator[SteppedClock]:
    clock = SteppedClock(tmp_path)
    yield clock
    clock.close()


def stepped(folder: Path, clock: SteppedClock) -> tuple[Daemon, ToolFolder]:
    daemon, tools = tool_node(folder)
    daemon.environment = {**daemon.environment, **clock.environment()}
    return daemon, tools


def last_success(daemon: Daemon) -> float:
    lines = series(daemon, "telemetry_source_last_success_timestamp_seconds{")
    return max(float(line.rpartition(" ")[2]) for line in lines if f'source="{TOOL}"' in line)


def without_the_second_card(text: str) -> str:
    lines = text.splitlines(keepends=True)
    row = next(number for number, line in enumerate(lines) if line.startswith("| 1 "))
    return "".join((*lines[:row], *lines[row + 3 :]))


def watch(daemon: Daemon, tools: ToolFolder, polls: int) -> None:
    """Scrape for this many polls; check that the tool's readings are always present and never too old."""
    goal = len(tools.calls(TOOL)) + polls
    while len(tools.calls(TOOL)) < goal:
        assert series(daemon, READING)
        ages = [poll["age_seconds"] for poll in daemon.source(TOOL)["polls"]]
        assert all(0.0 <= age < 10.0 for age in ages), ages
        time.sleep(0.1)


@pytest.mark.timeout(300)
def test_polls_go_on_whatever_the_time_of_day_is_set_to(tmp_path: Path, clock: SteppedClock) -> None:
    daemon, tools = stepped(tmp_path, clock)
    with daemon:
        daemon.until(lambda: series(daemon, READING))
        for name, seconds in STEPS.items():
            clock.step(seconds)
            watch(daemon, tools, 5)
            assert abs(last_success(daemon) - time.time() - clock.offset_seconds) < 30.0, name
        daemon.signal(signal.SIGHUP)
        daemon.until(lambda: daemon.logged("configuration reloaded"))
        watch(daemon, tools, 3)
        assert daemon.logged("Traceback") == 0
        status, seconds = daemon.stop()
        assert (status, seconds < 3.0) == (0, True)


@pytest.mark.timeout(300)
def test_a_lost_card_stays_lost_for_its_week_however_the_clock_is_set(tmp_path: Path, clock: SteppedClock) -> None:
    """The week is a monotonic age, which setting the time of day does not change."""
    daemon, tools = stepped(tmp_path, clock)
    ups = "accelerator_up{"
    with daemon:
        daemon.until(lambda: len(series(daemon, READING)) == 2)
        tools.prints(TOOL, without_the_second_card(tool_text()))
        daemon.until(lambda: [line for line in series(daemon, ups) if line.endswith(" 0.0")])
        for seconds in (30 * DAY, -60 * DAY, HOUR):
            clock.step(seconds)
            watch(daemon, tools, 3)
            assert [line.rpartition(" ")[2] for line in series(daemon, ups)] == ["1.0", "0.0"]
        tools.prints(TOOL, tool_text())
        daemon.until(lambda: len(series(daemon, READING)) == 2)
        assert daemon.logged("device lost") == daemon.logged("device returned") == 1
        assert daemon.stop()[0] == 0
