"""What the page of a simulated node tells minute by minute, as promtool's series: its faults from the simulator, its text from our renderer."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from kits.fed_node import DemoNode
from telemetry_daemon.simulate.faults import NO_FAULTS, Faults
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
        node = DemoNode(f"{self.cards}x{self.vendor}", _BEGIN, seed=self.seed, faults=self.faults)
        (source,), renderer = node.simulated, Renderer()
        for second in range(0, 60 * minutes, _STEP):
            node.now = float(second)
            node.ask(source, source.parser.polls[0], _STEP)
            if second % 60 == 0:
                yield renderer.text(node.store.snapshot()).decode().splitlines()
