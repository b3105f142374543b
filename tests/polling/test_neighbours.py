"""Two sources of one vendor: a tool that is asked rarely beside a cheap one is asked at once when that one has news."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator

import pytest

from kits.waiting import comes_true
from telemetry_daemon.config.settings import SourceSettings
from telemetry_daemon.polling import schedule
from telemetry_daemon.polling.poller import Poller
from telemetry_daemon.polling.source import PciView, Source
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Capture, Command, Device, Failure, Files, Output, Poll, Reading, Report, Request

BUSES = ("0000:33:00.0", "0000:53:00.0")


def parse(capture: Capture) -> Report:
    """A device for each address, with its power."""
    devices = tuple(Device("acme", bus_id=bus) for bus in capture.outputs[0].text.split())
    readings = tuple(Reading(position, "power_watts", 80.0) for position in range(len(devices)))
    return Report(devices=devices, readings=readings, form="data" if isinstance(capture.request, Files) else "text")


class Door:
    """A reader that tells which cards there are, or fails, and counts how often it was asked."""

    def __init__(self, node: Node, name: str, request: Request, interval: float) -> None:
        self.node = node
        self.name = name
        self.poll = Poll("readings", request, interval=interval)
        self.cards = BUSES
        self.failure: Failure | None = None
        self.asked = 0
        self.naps = 0.0
        self.may_close = threading.Event()
        self.may_close.set()
        self.changed = threading.Condition()

    def source(self) -> Source:
        parser = SourceParser(self.name, "acme", ("power_watts",), (self.poll,), parse)
        readers = {self.poll.name: self}
        return Source(parser, readers, SourceSettings(), lambda _: PciView(), self.node.clock, lambda *_: None)

    def read(self, poll: Poll, _targets: object) -> Capture:
        with self.changed:
            self.asked += 1
            self.changed.notify_all()
            outputs = (Output(text=" ".join(self.cards)),)
            taken = self.node.clock.monotonic()
            self.node.slept, self.naps = self.node.slept + self.naps, 0.0
            return Capture(self.name, poll.name, poll.request, outputs, self.failure, monotonic_time=taken)

    def until_asked(self, times: int) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: self.asked >= times, timeout=60.0)

    def close(self) -> None:
        assert self.may_close.wait(30.0)

    def left_behind(self) -> tuple[int, ...]:
        return ()


class Node:
    """A poller of a cheap source and of a tool, and a clock that can be put forward."""

    def __init__(self, tool_interval: float) -> None:
        self.ahead = 0.0
        self.slept = 0.0
        self.clock = Clock(lambda: time.monotonic() + self.ahead, slept=lambda: self.slept)
        self.store = Store("node", self.clock)
        self.poller = Poller(self.store, self.clock)
        self.cheap = Door(self, "acme-sysfs", Files(("/sys/acme/*",)), 0.05)
        self.tool = Door(self, "acme-smi", Command((("acme-smi",),)), tool_interval)

    def start(self) -> None:
        self.poller.start([self.cheap.source(), self.tool.source()])
        assert self.cheap.until_asked(2)
        assert self.tool.until_asked(1)


@pytest.fixture
def nodes() -> Iterator[list[Node]]:
    made: list[Node] = []
    yield made
    for node in made:
        node.poller.stop()


def test_a_tool_that_is_not_needed_is_asked_at_once_when_the_cheaper_source_fails(
    nodes: list[Node], caplog: pytest.LogCaptureFixture
) -> None:
    """What it said up to five minutes ago would stand in for the readings of now."""
    caplog.set_level("INFO")
    node = Node(tool_interval=0.05)
    nodes.append(node)
    node.start()
    assert comes_true(lambda: "polled rarely: a cheaper source gives its core readings" in caplog.text)
    before = node.tool.asked
    assert node.cheap.until_asked(node.cheap.asked + 10)
    assert node.tool.asked == before
    node.cheap.failure = Failure("failed", "timeout", "it hangs")
    assert node.tool.until_asked(before + 5)


def test_a_card_that_one_source_does_not_list_any_more_is_asked_for_at_the_others(nodes: list[Node]) -> None:
    """Else the old list of a tool that is asked every five minutes would keep it, with its old readings."""
    node = Node(tool_interval=300.0)
    nodes.append(node)
    node.start()
    node.ahead += 20.0
    node.cheap.cards = node.tool.cards = BUSES[:1]
    assert node.tool.until_asked(2)
    assert comes_true(lambda: [device.up for device in node.store.snapshot().devices] == [True, False])


def test_a_card_that_comes_and_goes_costs_no_storm_of_questions(nodes: list[Node]) -> None:
    node = Node(tool_interval=300.0)
    nodes.append(node)
    began = time.monotonic()
    node.start()
    for number in range(1, 20):
        node.cheap.cards = BUSES[: 1 + number % 2]
        assert node.cheap.until_asked(node.cheap.asked + 2)
    assert node.tool.asked <= 1 + (time.monotonic() - began) // schedule.LIST_AGAIN_SECONDS


def test_all_are_asked_at_once_when_the_machine_wakes_up(nodes: list[Node]) -> None:
    node = Node(tool_interval=300.0)
    nodes.append(node)
    node.start()
    node.poller.spread_again()
    assert node.cheap.until_asked(node.cheap.asked + 4)
    assert node.tool.asked == 1, "the wall clock was set, nothing else"
    node.slept += 3600.0
    node.poller.spread_again()
    assert node.tool.until_asked(2)


def test_what_was_read_while_the_machine_fell_asleep_is_read_again(nodes: list[Node]) -> None:
    """A part of the answer may be from before, however long ago that was."""
    node = Node(tool_interval=300.0)
    nodes.append(node)
    node.tool.naps = 3600.0
    node.start()
    assert node.tool.until_asked(2)
    assert comes_true(lambda: node.store.health_of(("acme-smi", "readings")) is not None)
    assert node.tool.asked == 2


def test_a_release_in_the_midst_of_a_reload_counts_when_that_is_done(nodes: list[Node]) -> None:
    """The source is away while what it runs is ended; it goes on with the settings of the reload."""
    node = Node(tool_interval=0.05)
    nodes.append(node)
    node.start()
    node.tool.may_close.clear()
    made: list[str] = []

    def make(why: str) -> Source:
        made.append(why)
        return node.tool.source()

    reload = threading.Thread(target=lambda: node.poller.renew("acme-smi", lambda: make("reload")))
    reload.start()
    assert comes_true(lambda: "acme-smi" not in node.poller.sources())
    release = threading.Thread(target=lambda: node.poller.release("acme-smi", lambda: make("release"), math.inf))
    release.start()
    node.tool.may_close.set()
    reload.join(30.0)
    release.join(30.0)
    assert made == ["reload", "release"]
    assert comes_true(
        lambda: {status.source: status.state for status in node.store.snapshot().sources}["acme-smi"] == "released"
    )
    assert node.poller.resume("acme-smi")


def test_a_plugin_may_be_called_like_a_chore_of_the_daemons(nodes: list[Node]) -> None:
    node = Node(tool_interval=300.0)
    nodes.append(node)
    node.start()
    done = threading.Event()
    node.poller.every("acme-smi", 0.01, done.set)
    assert done.wait(30.0)
