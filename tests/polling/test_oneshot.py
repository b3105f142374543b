"""Sources that are read once, together."""

import threading
from collections.abc import Callable
from functools import partial

from kits.waiting import PATIENCE_SECONDS, comes_true
from telemetry_daemon.config.settings import SourceSettings
from telemetry_daemon.polling.oneshot import OneShot
from telemetry_daemon.polling.pci_bus import PciView
from telemetry_daemon.polling.source import Source
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.times import Clock
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Capture, Library, Poll, Report


class ScriptedReader:
    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work

    def read(self, poll: Poll, targets: Targets) -> Capture:
        self._work()
        return Capture("scripted", poll.name, poll.request)

    def close(self) -> None:
        pass

    def leftover_pids(self) -> tuple[int, ...]:
        return ()


def source(name: str, work: Callable[[], object]) -> Source:
    """Return a source with one poll, which runs this function."""
    poll = Poll("readings", Library(name, ()), deadline=PATIENCE_SECONDS)
    parser = SourceParser(name, "", (), (poll,), lambda _: Report())
    return Source(
        parser,
        {"readings": ScriptedReader(work)},
        SourceSettings(),
        lambda _: PciView(),
        Clock(),
        lambda _capture, _report: None,
    )


def test_primed_source_is_read_again_after_its_gap() -> None:
    order: list[str] = []
    sources = [source(name, partial(order.append, name)) for name in ("host", "tool")]
    shot = OneShot("node", sources, Clock())
    shot.prime("host", 3600.0)
    shot.read(("fast",), timeout_seconds=0.5)
    assert comes_true(lambda: order == ["host", "tool"]), "the gap outlasts the time there is"
    shot.prime("host", 0.01)
    shot.read(("fast",), PATIENCE_SECONDS)
    assert sorted(order[2:]) == ["host", "host", "tool"]


def test_gap_of_a_source_delays_no_other() -> None:
    order: list[str] = []
    shot = OneShot("node", [source("tool", partial(order.append, "tool"))], Clock())
    shot.prime("host", 3600.0)
    shot.read(("fast",), PATIENCE_SECONDS)
    assert order == ["tool"]


def test_silent_source_has_the_time_of_its_attempt() -> None:
    """The age of an abandoned attempt is not the uptime."""
    go_on = threading.Event()
    clock = Clock()
    began = clock.monotonic()
    try:
        snapshot = OneShot("node", [source("tool", partial(go_on.wait, PATIENCE_SECONDS))], clock).read(("fast",), 0.2)
    finally:
        go_on.set()
    (poll,) = snapshot.sources[0].polls
    assert (poll.state, poll.reason) == ("failed", "timeout")
    assert began <= poll.attempted_monotonic <= snapshot.monotonic_time
    assert poll.seconds == 0.2
