"""Missing sources are looked for on one thread, and an installed tool is found within its interval."""

import math
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kits.fake_tools import ToolFolder
from kits.waiting import comes_true
from telemetry_daemon.config.settings import SourceSettings
from telemetry_daemon.polling.pci_bus import PciView
from telemetry_daemon.polling.poller import Poller
from telemetry_daemon.polling.source import Source
from telemetry_daemon.processes.worker import Worker
from telemetry_daemon.readers.base import Reader, Targets
from telemetry_daemon.readers.in_worker import WorkerReader
from telemetry_daemon.readers.tool_reader import CommandReader
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.metrics import reading
from telemetry_parsers.model import Capture, Command, Device, Files, Health, Poll, Report

SECONDS = 0.1
SEVERAL = 12


def parse(capture: Capture) -> Report:
    watts = float(capture.outputs[0].text)
    return Report(devices=(Device("acme", 0),), readings=(reading(0, "power_watts", watts),))


class Node:
    """A poller of sources whose tools are not installed yet, and of a source with a slow poll."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tools = ToolFolder(folder / "tools")
        self.clock = Clock()
        self.store = Store("node", self.clock)
        self.poller = Poller(self.store, self.clock)
        self.pci = PciView()
        self.reading_threads: set[int] = set()

    def source(self, name: str = "acme-smi", settings: SourceSettings = SourceSettings()) -> Source:  # noqa: B008  # frozen
        request = Command(((name,),))
        polls = (
            Poll("readings", request, interval=SECONDS, wakes=True),
            Poll("slow", request, "slow", interval=2 * SECONDS, lists_devices=False),
        )
        reader = CommandReader(
            name, self.folder / "locks", path=settings.path or "", environment=self.tools.environment
        )
        parser = SourceParser(name, "acme", ("power_watts",), polls, parse)
        return self.around(parser, reader, settings)

    def around(self, parser: SourceParser, reader: Reader, settings: SourceSettings) -> Source:
        readers = {poll.name: reader for poll in parser.polls}
        return Source(parser, readers, settings, lambda _: self.pci, self.clock, self.keep)

    def keep(self, _capture: Capture, _report: Report | None) -> None:
        self.reading_threads.add(threading.get_ident())

    def health(self, name: str = "acme-smi", poll: str = "readings") -> Health | None:
        return self.store.health_of((name, poll))

    def comes_to(self, state: str, name: str = "acme-smi", poll: str = "readings") -> bool:
        return comes_true(lambda: (health := self.health(name, poll)) is not None and health.state == state)

    def is_looked_for(self, times: int = 3, name: str = "acme-smi") -> bool:
        """Return whether both polls are attempted so many times more."""
        return all(self.is_attempted_again(name, poll) for _ in range(times) for poll in ("readings", "slow"))

    def is_attempted_again(self, name: str, poll: str) -> bool:
        before = self.health(name, poll)
        return comes_true(lambda: self.health(name, poll) != before)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.poller.stop()


@pytest.fixture
def missing(node: Node) -> Node:
    """Return a node whose only tool was looked for in vain."""
    node.poller.start([node.source()])
    assert node.comes_to("missing")
    assert node.comes_to("missing", poll="slow")
    return node


def test_tool_installed_later_is_found(missing: Node) -> None:
    assert missing.is_looked_for()
    missing.tools.prints("acme-smi", "81.5\n")
    assert missing.comes_to("ok")
    assert missing.comes_to("ok", poll="slow")
    assert len(missing.store.snapshot().devices) == 1


def test_removed_tool_is_found_again(node: Node) -> None:
    tool = node.tools.prints("acme-smi", "81.5\n")
    node.poller.start([node.source()])
    assert node.comes_to("ok")
    tool.unlink()
    assert node.comes_to("missing")
    assert node.store.snapshot().sources[0].up is None
    node.tools.prints("acme-smi", "81.5\n")
    assert node.comes_to("ok")


def test_each_search_is_an_attempt(missing: Node) -> None:
    first = missing.health()
    assert missing.is_looked_for()
    later = missing.health()
    assert later.attempted_monotonic > first.attempted_monotonic
    assert later.attempted >= first.attempted
    assert later.expires > first.expires
    assert (later.state, later.reason, later.detail, later.failures) == ("missing", None, first.detail, ())
    assert "acme-smi was not found on PATH" in later.detail


def test_missing_tools_share_one_thread(node: Node) -> None:
    names = [f"acme-{number}" for number in range(SEVERAL)]
    node.poller.start([node.source(name) for name in names])
    assert all(node.comes_to("missing", name) for name in names)
    assert all(node.comes_to("missing", name, "slow") for name in names)
    node.reading_threads.clear()
    assert all(node.is_looked_for(1, name) for name in names)
    assert node.reading_threads == set(), "no reader is asked to read"
    node.tools.prints(names[3], "81.5\n")
    assert node.comes_to("ok", names[3])
    assert len(node.reading_threads) == 1
    assert node.is_looked_for(2, names[0])


def test_configured_path_is_searched_on_its_own_thread(node: Node) -> None:
    """A configured path may be on a file server that hangs, which must not delay other sources."""
    tool = node.folder / "far" / "acme-smi"
    node.poller.start([node.source(settings=SourceSettings(path=str(tool)))])
    assert node.comes_to("missing")
    assert node.is_looked_for()
    assert len(node.reading_threads) == 1
    tool.parent.mkdir()
    node.tools.prints("acme-smi", "81.5\n").rename(tool)
    assert node.comes_to("ok")


def test_missing_source_is_released_and_resumed(missing: Node) -> None:
    missing.poller.release("acme-smi", missing.source, math.inf)
    missing.tools.prints("acme-smi", "81.5\n")
    assert missing.comes_to("released")
    assert missing.is_looked_for()
    assert missing.health().state == missing.health(poll="slow").state == "released"
    assert missing.poller.resume("acme-smi")
    assert missing.comes_to("ok")


def test_release_during_a_search_is_kept(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = node.source("a-smi"), node.source("b-smi")
    look, released = first.outcome_if_missing, threading.Event()

    def releasing(poll: Poll) -> object:
        if node.health("b-smi", "slow") is not None and not released.is_set():
            node.poller.release("b-smi", lambda: node.source("b-smi"), math.inf)
            released.set()
        return look(poll)

    monkeypatch.setattr(first, "outcome_if_missing", releasing)
    node.poller.start([first, second])
    assert comes_true(released.is_set)
    assert node.is_looked_for(name="a-smi")
    assert node.health("b-smi").state == node.health("b-smi", "slow").state == "released"


def test_missing_source_is_replaced_or_removed(missing: Node) -> None:
    missing.poller.replace_source("acme-smi", lambda: missing.source(settings=SourceSettings(mode="never")))
    assert missing.comes_to("disabled")
    missing.poller.replace_source("acme-smi", missing.source)
    assert missing.comes_to("missing")
    missing.tools.prints("acme-smi", "81.5\n")
    assert missing.comes_to("ok")
    missing.poller.remove("acme-smi")
    assert missing.health() is None


def test_missing_source_is_searched_after_a_realign(missing: Node) -> None:
    missing.poller.realign()
    assert missing.is_looked_for()
    missing.tools.prints("acme-smi", "81.5\n")
    assert missing.comes_to("ok")


def test_sleeping_cards_are_reported_for_a_missing_source(missing: Node) -> None:
    missing.pci = PciView(2, 1)
    assert missing.comes_to("suspended")
    missing.pci = PciView(2, 0)
    assert missing.comes_to("missing")


def test_missing_files_start_no_worker(node: Node) -> None:
    files = Files(("/sys/acme/power",))
    parser = SourceParser("acme-sysfs", "acme", ("power_watts",), (Poll("readings", files, interval=60.0),), parse)
    worker = Worker("acme-sysfs")
    source = node.around(parser, WorkerReader("acme-sysfs", worker, str(node.folder)), SourceSettings())
    answer = source.outcome_if_missing(parser.polls[0])
    assert (answer.result.state, worker.pid) == ("missing", None)
    (node.folder / "sys" / "acme").mkdir(parents=True)
    (node.folder / "sys" / "acme" / "power").write_text("81.5\n")
    assert source.outcome_if_missing(parser.polls[0]) is None, "only a worker may read them"
    assert source.run_poll(parser.polls[0], Targets()).result.state == "ok"
    worker.close()
