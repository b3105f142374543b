"""A recording of cards of eleven vendors, played into a real Prometheus: the boards have their data."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from grafana.test_queries import EMPTY, PANELS, RULES, Fleet
from kits.daemon import Daemon
from kits.prometheus import Prometheus, impatient
from kits.waiting import until
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.host import HostReader
from telemetry_daemon.recording.record import Recorder
from telemetry_daemon.simulate.demo import parse_demo
from telemetry_daemon.simulate.faults import NO_FAULTS
from telemetry_daemon.simulate.source import simulated_sources
from telemetry_daemon.times import Clock
from telemetry_parsers import host

pytestmark = [pytest.mark.needs("prometheus"), pytest.mark.timeout(300), pytest.mark.long]

CARDS = "3xnvidia,2xamd,2xhygon,4xascend,2xmoorethreads,1xcambricon,1xmetax,1xiluvatar,1xenflame,1xintel,1xkunlunxin"
BEGUN, SECONDS = 1_795_000_000.0, 150
# Boards about owners and steps, which these sources do not tell.
NOT_DIVIDED = "telemetry-node Partitions"  # none of these cards is
ELSEWHERE = ("telemetry-jobs", "telemetry-work")


def recorded(path: Path) -> None:
    """Two minutes and a half of these cards, and of this machine's host."""
    now = [0.0]
    clock = Clock(lambda: 5000.0 + now[0], lambda: BEGUN + now[0])
    sources = simulated_sources(parse_demo(CARDS), faults=NO_FAULTS, clock=clock)
    of_host = HostReader()
    with Recorder.to_file(path) as recorder:
        for second in range(SECONDS):
            now[0] = float(second)
            for one in sources:
                for poll in one.parser.polls:
                    if second % int(poll.interval) == 0:
                        recorder.add(one.reader.read(poll, Targets()))
            if second % 5 == 0:
                time.sleep(0.05)  # its load is counted from one reading to the next
                told = of_host.read(host.PARSER.polls[0], Targets())
                recorder.add(replace(told, wall_time=clock.wall(), monotonic_time=clock.monotonic()))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    path = tmp_path_factory.mktemp("recording") / "node.jsonl.gz"
    recorded(path)
    with ExitStack() as stack:
        played = Daemon(tmp_path_factory.mktemp("node"), arguments=("--replay", str(path), "--at", "60s"))
        daemon = stack.enter_context(played)
        folder = tmp_path_factory.mktemp("prometheus")
        rules = impatient(sorted(RULES.glob("*.yml")), folder)
        prometheus = stack.enter_context(Prometheus(folder, [daemon.address], rules))
        until(lambda: len(prometheus.query("count by (vendor) (accelerator_up)")[1]) == 11, "eleven vendors")
        until(lambda: prometheus.query("accelerator:utilization_ratio:zscore")[1], "recorded scores")
        until(lambda: prometheus.query("rate(accelerator_pcie_receive_bytes_total[15s])")[1], "a slow counter")
        yield Fleet(prometheus, [])


def test_every_panel_of_readings_shows_something(fleet: Fleet) -> None:
    told = {name for name in PANELS if not name.startswith(ELSEWHERE)} - {*EMPTY, NOT_DIVIDED}
    assert {name for name in told if not fleet.shows(name)} == set()


def test_what_is_replayed_says_so_on_every_card(fleet: Fleet) -> None:
    told = fleet.prometheus.query('count(accelerator_info{replayed="true"}) == count(accelerator_info)')[1]
    assert told
