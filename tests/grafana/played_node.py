"""What the page of a simulated node tells minute by minute, as promtool's series: its faults from the simulator, its text from our renderer."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from telemetry_daemon.readers.base import Targets
from telemetry_daemon.simulate.faults import NO_FAULTS, Faults
from telemetry_daemon.simulate.source import SimulatedSource
from telemetry_daemon.state.accumulate import Accumulator
from telemetry_daemon.state.health import SourceFacts, judge
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_exporters.prometheus import Renderer

# The pauses of a training, 9 s of 240, then count for no more than a twentieth.
_STEP = 12
_BEGIN = 1_800_000_000.0
_SAMPLE = re.compile(r"(?P<name>[a-z_:0-9]+)\{(?P<labels>.*)\} (?P<value>\S+)")


@dataclass
class Play:
    """Simulated cards of one vendor; their fast poll is done five times a minute, and the page is asked for once."""

    vendor: str
    cards: int = 8
    seed: int = 7
    faults: Faults = NO_FAULTS

    def series(self, target: str, minutes: int, wanted: re.Pattern[str]) -> dict[str, str]:
        """The wanted series, by their names with the labels of the target."""
        told: dict[str, dict[int, str]] = defaultdict(dict)
        for minute, page in enumerate(self._pages(minutes)):
            for sample in filter(None, map(_SAMPLE.fullmatch, page)):
                if wanted.match(sample["name"]):
                    told[f"{sample['name']}{{{target},{sample['labels']}}}"][minute] = sample["value"]
        return {name: " ".join(values.get(minute, "_") for minute in range(minutes)) for name, values in told.items()}

    def _pages(self, minutes: int) -> Iterable[list[str]]:
        now = [0.0]
        clock = Clock(lambda: now[0], lambda: _BEGIN + now[0])
        source = SimulatedSource(self.vendor, self.cards, seed=self.seed, faults=self.faults, clock=clock)
        store, renderer = Store("node", clock, accumulator=Accumulator()), Renderer()
        parser = source.parser
        store.add_source(SourceFacts(parser.name, parser.vendor, parser.gives))
        fast = parser.polls[0]
        for second in range(0, 60 * minutes, _STEP):
            now[0] = float(second)
            capture = replace(source.reader.read(fast, Targets()), monotonic_time=now[0], wall_time=_BEGIN + now[0])
            report = parser.parse(capture) if capture.failure is None else None
            store.put(parser.name, fast, capture, report, judge(capture, report, 0), _STEP)
            if second % 60 == 0:
                yield renderer.text(store.snapshot()).decode().splitlines()
