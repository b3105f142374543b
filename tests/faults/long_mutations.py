"""Half an hour of damaged outputs of every tool, on a fast clock: the daemon's memory does not grow."""

import os
import random
from dataclasses import replace

import pytest

from fuzz.damage import DAMAGES
from kits.captures import own_cases, registered_parsers
from kits.fed_node import FedNode
from state.test_bounds import weight
from telemetry_daemon.recordings.alarms import AlarmDetector
from telemetry_daemon.recordings.last_minutes import CaptureLine, RecentCaptures
from telemetry_daemon.state.health import SourceFacts, result_of
from telemetry_daemon.state.history import History
from telemetry_exporters.documents import snapshot_json
from telemetry_exporters.prometheus import renderer
from telemetry_parsers import bounds
from telemetry_parsers.codec.captures import capture_line
from telemetry_parsers.model import Capture

MINUTES = float(os.environ.get("FAULT_MINUTES", "30"))
SEED = int(os.environ.get("FAULT_SEED", "17"))
STEP_SECONDS = 5.0
MAX_TEXT_LENGTH = 100_000


class DamagedNode(FedNode):
    def __init__(self) -> None:
        self.parsers = registered_parsers()
        self.captures: dict[str, list[Capture]] = {}
        for case in own_cases():
            if case.tool in self.parsers:
                self.captures.setdefault(case.tool, []).extend(case.captures(self.parsers[case.tool]))
        parsers = (self.parsers[name] for name in self.captures)
        super().__init__([SourceFacts(parser.name, parser.vendor, parser.gives) for parser in parsers])
        self.dice, self.ring = random.Random(SEED), RecentCaptures()
        self.alarms, self.history = AlarmDetector(lambda _: None, lambda: self.now), History(self.clock)
        self.store = self.new_store(history=self.history, observer=self.alarms)

    def live(self, minutes: float) -> int:
        end = self.now + 60.0 * minutes
        while self.now < end:
            self.now += STEP_SECONDS
            for source in self.captures:
                self._poll(source)
            self.history.end_slots(self.store.snapshot)
            assert renderer.text_page(self.store.snapshot())
            assert snapshot_json.render(self.store.snapshot())
        return weight((self.store, self.alarms)) + self.ring.size_bytes

    def _poll(self, source: str) -> None:
        parser, capture = self.parsers[source], self._damaged(source)
        poll = next((poll for poll in parser.polls if poll.name == capture.poll), parser.polls[0])
        now = replace(capture, poll=poll.name, monotonic_time=self.now, wall_time=self.wall, seconds=0.01)
        report = parser.parse(now)
        self.ring.add(CaptureLine(source, poll.name, self.now, capture_line(now)))
        self.store.put(source, poll, now, report, result_of(now, report, 0), STEP_SECONDS)

    def _damaged(self, source: str) -> Capture:
        capture = self.dice.choice(self.captures[source])
        texts = [output.text for output in capture.outputs if output.text]
        outputs = []
        for output in capture.outputs:
            text = output.text
            for damage in self.dice.sample(DAMAGES, self.dice.randint(0, 3)):
                text = damage(text, self.dice, texts)[:MAX_TEXT_LENGTH] if text else text
            outputs.append(replace(output, text=text))
        return replace(capture, outputs=tuple(outputs))


@pytest.mark.timeout(1800)
def test_half_an_hour_of_damaged_outputs_is_held_in_flat_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    # Few lost devices fill their places in the first half hour.
    monkeypatch.setattr(bounds, "MAX_LOST", 2)
    monkeypatch.setattr(bounds, "MAX_UNKNOWN", 2)
    node = DamagedNode()
    before = max(node.live(MINUTES / 2), node.live(MINUTES / 2))
    after = node.live(MINUTES)
    print(f"{MINUTES:g} min of damaged outputs: {after / 2**20:.2f} MiB after {before / 2**20:.2f} MiB")
    assert after <= before * 1.1 + (256 << 10)
