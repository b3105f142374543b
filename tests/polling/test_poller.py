"""The poller: which sources are polled at once, which rarely, and what is logged about them."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from kits.waiting import comes_true
from telemetry_daemon.config.settings import SourceSettings
from telemetry_daemon.polling import poll_intervals
from telemetry_daemon.polling.pci_bus import PciView
from telemetry_daemon.polling.poller import Poller
from telemetry_daemon.polling.source import Source
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Capture, Command, Device, Failure, Files, Output, Poll, Problem, Reading, Report

BUSES = ("0000:33:00.0", "0000:53:00.0")
TOOL = Command((("acme-smi",),))
IDENTITY = Poll("identity", Command((("acme-smi", "-i"),)), tier="inventory", interval=300.0, lists_devices=False)


def cards(capture: Capture) -> Report:
    devices = tuple(Device("acme", bus_id=bus) for bus in capture.outputs[0].text.split())
    readings = tuple(Reading(position, "power_watts", 80.0) for position in range(len(devices)))
    return Report(devices=devices, readings=readings, form="data" if isinstance(capture.request, Files) else "text")


def two_problems(capture: Capture) -> Report:
    number = capture.outputs[0].text
    problems = (Problem("line 3", f"'Drain: {number} W' is not known"), Problem(f"line {number}", "'???' is not known"))
    return Report(devices=(Device("acme", 0),), problems=problems)


class Door:
    """A reader that returns the addresses of its cards, or fails, and counts the reads of each poll."""

    def __init__(self, node: Node, name: str, *polls: Poll) -> None:
        self.node, self.name, self.polls = node, name, polls
        self.cards: tuple[str, ...] = BUSES
        self.text: Callable[[], str] = lambda: " ".join(self.cards)
        self.failure: Failure | None = None
        self.counts: Counter[str] = Counter()
        self.naps = 0.0
        self.may_close = threading.Event()
        self.may_close.set()
        self.changed = threading.Condition()

    def source(self, parse: Callable[[Capture], Report] = cards) -> Source:
        parser = SourceParser(self.name, "acme", ("power_watts",), self.polls, parse)
        readers = {poll.name: self for poll in self.polls}
        return Source(parser, readers, SourceSettings(), lambda _: PciView(), self.node.clock, lambda *_: None)

    def read(self, poll: Poll, _targets: object) -> Capture:
        with self.changed:
            self.counts[poll.name] += 1
            self.changed.notify_all()
            outputs = (Output(text=self.text()),)
            now = self.node.clock.monotonic()
            self.node.slept, self.naps = self.node.slept + self.naps, 0.0
            return Capture(self.name, poll.name, poll.request, outputs, self.failure, monotonic_time=now)

    @property
    def asked(self) -> int:
        return self.counts["readings"]

    def until_asked(self, times: int, poll: str = "readings") -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: self.counts[poll] >= times, timeout=60.0)

    def close(self) -> None:
        assert self.may_close.wait(60.0)

    def leftover_pids(self) -> tuple[int, ...]:
        return ()


class Node:
    """A poller of a cheap source and of a tool, and a clock that a test moves."""

    def __init__(self) -> None:
        self.ahead = self.slept = 0.0
        self.clock = Clock(lambda: time.monotonic() + self.ahead, suspended_seconds=lambda: self.slept)
        self.store = Store("node", self.clock)
        self.poller = Poller(self.store, self.clock)
        self.cheap = Door(self, "acme-sysfs", Poll("readings", Files(("/sys/acme/*",)), interval=0.05))

    def start(self, tool_interval: float = 300.0, naps: float = 0.0) -> None:
        self.tool = Door(self, "acme-smi", Poll("readings", TOOL, interval=tool_interval))
        self.tool.naps = naps
        self.poller.start([self.cheap.source(), self.tool.source()])
        assert self.cheap.until_asked(2)
        assert self.tool.until_asked(1)

    def start_alone(self, parse: Callable[[Capture], Report] = cards) -> Door:
        door = Door(self, "acme-smi", Poll("readings", TOOL, interval=0.05), IDENTITY)
        self.poller.start([door.source(parse)])
        assert door.until_asked(3)
        assert door.until_asked(1, "identity")
        return door


@pytest.fixture
def node() -> Iterator[Node]:
    node = Node()
    yield node
    node.poller.stop()


def test_problem_is_logged_once_in_spite_of_numbers(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    door = Door(node, "acme-smi", Poll("readings", TOOL, interval=0.05))
    door.text = lambda: str(door.asked)
    node.poller.start([door.source(two_problems)])
    assert door.until_asked(12)
    node.poller.stop()
    logged = [vars(record)["text"] for record in caplog.records if record.message == "problem"]
    assert logged == ["'Drain: 1 W' is not known", "'???' is not known"]


@pytest.mark.parametrize("now", [(*BUSES, "0000:54:00.0"), BUSES[:1], ()])
def test_changed_devices_trigger_rarer_polls(node: Node, now: tuple[str, ...]) -> None:
    door = node.start_alone()
    door.cards = now
    assert door.until_asked(2, "identity")


def test_unchanged_devices_trigger_no_poll(node: Node) -> None:
    door = node.start_alone()
    assert door.until_asked(8)
    assert door.counts["identity"] == 1


def test_unneeded_tool_is_polled_when_the_cheaper_source_fails(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    node.start(tool_interval=0.05)
    assert comes_true(lambda: "polled rarely, because cheaper sources report all core readings" in caplog.text)
    before = node.tool.asked
    assert node.cheap.until_asked(node.cheap.asked + 10)
    assert node.tool.asked <= before + 1, "it may have been under way"
    node.cheap.failure = Failure("failed", "timeout", "it hangs")
    assert node.tool.until_asked(before + 6)


def test_missing_card_triggers_polls_of_other_sources(node: Node) -> None:
    node.start()
    node.ahead += 20.0
    node.cheap.cards = node.tool.cards = BUSES[:1]
    assert node.tool.until_asked(2)
    assert comes_true(lambda: [device.up for device in node.store.snapshot().devices] == [True, False])


def test_flapping_card_causes_few_polls(node: Node) -> None:
    began = time.monotonic()
    node.start()
    for number in range(1, 20):
        node.cheap.cards = BUSES[: 1 + number % 2]
        assert node.cheap.until_asked(node.cheap.asked + 2)
    assert node.tool.asked <= 1 + (time.monotonic() - began) // poll_intervals.LIST_AGAIN_SECONDS


def test_wake_up_triggers_all_polls(node: Node) -> None:
    node.start()
    node.poller.realign()
    assert node.cheap.until_asked(node.cheap.asked + 4)
    assert node.tool.asked == 1, "the wall clock was set, nothing else"
    node.slept += 3600.0
    node.poller.realign()
    assert node.tool.until_asked(2)


def test_reading_across_a_suspension_is_repeated(node: Node) -> None:
    node.start(naps=3600.0)
    assert node.tool.until_asked(2)
    assert comes_true(lambda: node.store.health_of(("acme-smi", "readings")) is not None)
    assert node.tool.asked == 2


def test_release_during_a_reload_is_kept(node: Node) -> None:
    node.start(tool_interval=0.05)
    node.tool.may_close.clear()
    made: list[str] = []

    def make(why: str) -> Source:
        made.append(why)
        return node.tool.source()

    reload = threading.Thread(target=lambda: node.poller.replace_source("acme-smi", lambda: make("reload")))
    reload.start()
    assert comes_true(lambda: "acme-smi" not in node.poller.sources())
    release = threading.Thread(target=lambda: node.poller.release("acme-smi", lambda: make("release"), math.inf))
    release.start()
    node.tool.may_close.set()
    reload.join(60.0)
    release.join(60.0)
    assert made == ["reload", "release"]
    assert comes_true(
        lambda: {status.source: status.state for status in node.store.snapshot().sources}["acme-smi"] == "released"
    )
    assert node.poller.resume("acme-smi")


def test_source_may_be_named_like_an_internal_job(node: Node) -> None:
    node.start()
    done = threading.Event()
    node.poller.run_every("acme-smi", 0.01, done.set)
    assert done.wait(60.0)
