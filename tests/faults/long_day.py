"""A day of polls and scrapes in fast motion: memory, threads, descriptors and processes do not grow."""

import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from kits import snapshots as kit
from kits.fake_sysfs import Sysfs, mi210
from kits.fake_tools import Answer, ToolFolder
from kits.fed_node import FedNode
from kits.processes import descendants
from kits.tool_node import TOOL, tool_text
from telemetry_daemon.config.settings import Settings, SourceSettings, StateSettings
from telemetry_daemon.plugins.loading import load_parsers
from telemetry_daemon.plugins.sources import find_parsers
from telemetry_daemon.polling import poll_intervals
from telemetry_daemon.polling.node_sources import RealNode
from telemetry_daemon.polling.source import Source
from telemetry_daemon.simulate.node import DemoNode
from telemetry_daemon.state.health import SourceFacts
from telemetry_exporters.documents import snapshot_csv, snapshot_json
from telemetry_exporters.prometheus import renderer
from telemetry_parsers.model import Poll

HOUR = 3600.0
STEP_SECONDS = 15.0
# After these steps everything that is kept on purpose is in memory.
FIRST_HOURS = 4
DEMO = "2xnvidia,1xhygon"
# Searching sources without cards thousands of times would test nothing.
REAL = (TOOL, "amdgpu-sysfs", "host")


class Day(FedNode):
    """Sources of every kind, the store, and a clock that jumps from poll to poll."""

    def __init__(self, folder: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(now=5000.0, wall_at_start=1.8e9)
        tools = ToolFolder(folder / "tools")
        bad = Answer("Error: no driver\n", status=1)
        tools.alternates(TOOL, [*[Answer(tool_text())] * 19, bad])
        monkeypatch.setenv("PATH", tools.search_path)
        sysfs = Sysfs(folder / "host")
        self.card = sysfs.card("0000:03:00.0", mi210())
        settings = Settings(
            sources={"amdgpu-sysfs": SourceSettings(path=str(sysfs.root))},
            state=StateSettings(runtime_directory=str(folder / "run")),
        )
        node = RealNode(stack.enter_context(load_parsers(find_parsers())), self.clock)
        demo = DemoNode(DEMO, self.clock)
        self.sources = [*node.sources(settings, REAL), *(s for s in demo.sources(settings) if s.name != "host")]
        for source in self.sources:
            stack.callback(source.close)
            parser = source.parser
            self.store.add_source(SourceFacts(source.name, parser.vendor, parser.gives), parser.metrics)
        self._asked: dict[tuple[str, str], float] = {}

    def hours(self, count: int) -> Iterator[int]:
        for _ in range(count):
            end = self.now + HOUR
            while self.now < end:
                self.now += STEP_SECONDS
                for source in self.sources:
                    for poll in source.parser.polls:
                        self._ask(source, poll)
                self._scrape()
            yield sum(len(device.readings) for device in self.store.snapshot().devices)

    def _ask(self, source: Source, poll: Poll) -> None:
        # Fast polls at every step: a day at 15 s has the same number.
        interval = max(STEP_SECONDS, poll_intervals.base_interval(poll, source.settings))
        if self.now - self._asked.get((source.name, poll.name), 0.0) < interval:
            return
        self._asked[source.name, poll.name] = self.now
        answer = source.run_poll(poll, self.store.targets(source.name))
        # The readers look at the real clock.
        capture = replace(answer.capture, monotonic_time=self.now, wall_time=self.now + 1.8e9)
        self.store.put(source.name, poll, capture, answer.report, answer.result, interval)

    def _scrape(self) -> None:
        snapshot = self.store.snapshot()
        assert renderer.text_page(snapshot)
        if self.now % 60.0 < STEP_SECONDS:
            assert all((kit.openmetrics_page(snapshot), snapshot_json.render(snapshot), snapshot_csv.render(snapshot)))


def kept() -> tuple[int, int, int]:
    return threading.active_count(), len([*Path("/proc/self/fd").iterdir()]), len(list(descendants(os.getpid())))


@pytest.mark.timeout(900)
def test_day_of_faults_leaks_no_resources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as stack:
        day = Day(tmp_path, stack, monkeypatch)
        readings = list(day.hours(FIRST_HOURS))
        gc.collect()
        before, blocks = kept(), sys.getallocatedblocks()
        readings += list(day.hours(24 - FIRST_HOURS))
        gc.collect()
        growth = sys.getallocatedblocks() - blocks
        print(f"24 h: {growth} blocks more than the {blocks} after {FIRST_HOURS} h; {kept()}; {readings[-1]} readings")
        assert min(readings) > 80
        assert kept() == before
        assert growth < blocks // 50
