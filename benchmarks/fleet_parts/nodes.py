"""Simulated nodes in fast motion: the pages that a daemon would serve, with a new page every fifteen simulated seconds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from random import Random

from telemetry_daemon.polling.node_sources import reports_owners
from telemetry_daemon.readers.base import Reader, Targets
from telemetry_daemon.readers.host import HostReader
from telemetry_daemon.service.daemon_metrics import DaemonMetrics
from telemetry_daemon.simulate.demo import Groups, counts_by_vendor, parse_demo
from telemetry_daemon.simulate.source import simulated_sources
from telemetry_daemon.site.process_metrics import ProcessMetrics
from telemetry_daemon.state.accumulate import Accumulator
from telemetry_daemon.state.health import SourceFacts, result_of
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_exporters.prometheus.renderer import EOF, Renderer, Syntax
from telemetry_parsers import host
from telemetry_parsers.contract import Parser
from telemetry_parsers.model import Capture, Failure, Poll, Snapshot

# The fleet's Prometheus scrapes at this interval. Simulated polls are not more frequent.
STEP_SECONDS = 15.0
# Far enough in the past for a complete two-hour block of Prometheus.
BEGIN_UNIX_SECONDS = 1_768_176_000.0
# Nodes share a course at different times, so this many past pages are kept.
KEPT_PAGES = 4


@dataclass
class Page:
    """The page of a node at one time. Each syntax is rendered at its first request. `ids` identify the devices."""

    snapshot: Snapshot
    tails: dict[Syntax, bytes]
    renderer: Renderer
    _bodies: dict[Syntax, bytes] = field(default_factory=dict)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(device.id for device in self.snapshot.devices)

    def body(self, syntax: Syntax) -> bytes:
        """Return the whole page, as the daemon would send it."""
        if syntax not in self._bodies:
            end = EOF if syntax is Syntax.OPENMETRICS else b""
            self._bodies[syntax] = self.renderer.page(self.snapshot, syntax) + self.tails[syntax] + end
        return self._bodies[syntax]


class Course:
    """A simulated node that advances step by step. It has a page from the start."""

    def __init__(self, node: Groups, seed: int) -> None:
        self._seconds = 0.0
        self._clock = Clock(lambda: self._seconds, lambda: BEGIN_UNIX_SECONDS + self._seconds)
        self._store = Store(f"simulated{seed}", self._clock, (), Accumulator())
        self._sources: list[tuple[Parser, Reader]] = [(host.PARSER, HostReader())]
        self._sources += [(item.parser, item.reader) for item in simulated_sources(node, seed=seed, clock=self._clock)]
        self._renderer, self._process = Renderer(), ProcessMetrics()
        self.pages: deque[Page] = deque(maxlen=KEPT_PAGES)
        self._register_sources(node)
        self.step()

    def step(self) -> None:
        """Run the polls that are due, and add the next page."""
        for parser, reader in self._sources:
            for poll in parser.polls:
                interval = max(STEP_SECONDS, poll.interval)
                if self._seconds % interval == 0:
                    self._ingest(parser, poll, reader.read(poll, Targets()), interval)
        tails = {syntax: self._process.render(syntax) for syntax in Syntax}
        self.pages.append(Page(self._store.snapshot(), tails, self._renderer))
        self._seconds += STEP_SECONDS

    def _register_sources(self, node: Groups) -> None:
        """Register the sources of a default installation with the store. Sources of other vendors are absent on this node."""
        metrics = DaemonMetrics(self._store)
        metrics.set_version()
        metrics.record_reload(succeeded=True)
        metrics.set_pci(counts_by_vendor(node))
        present = {parser.name for parser, _ in self._sources}
        for parser, _ in self._sources:
            self._store.add_source(SourceFacts(parser.name, parser.vendor, parser.gives))
        for entry in entry_points(group="telemetry.parsers"):
            parser = entry.load()
            if parser.name not in present and not reports_owners(parser):
                self._store.add_source(SourceFacts(parser.name, parser.vendor, parser.gives))
                poll = parser.polls[0]
                missing = Failure("missing", None, "not installed on a simulated node")
                capture = Capture(parser.name, poll.name, poll.request, failure=missing)
                self._ingest(parser, poll, capture, poll.interval)

    def _ingest(self, parser: Parser, poll: Poll, capture: Capture, interval: float) -> None:
        # Readings of the host have real times, which are replaced by simulated times.
        capture = replace(capture, monotonic_time=self._clock.monotonic(), wall_time=self._clock.wall())
        report = None if capture.failure else parser.parse(capture)
        self._store.put(parser.name, poll, capture, report, result_of(capture, report, 0), interval)


class FleetNode:
    """A node of the fleet. It shares a course, but is some pages behind the course and has its own identities."""

    def __init__(self, course: Course, number: int, pages_behind: int) -> None:
        self._course = course
        self._pages_behind = pages_behind
        digits = list("0123456789")
        Random(number).shuffle(digits)
        self._digits = str.maketrans("0123456789", "".join(digits))

    def page(self, syntax: Syntax) -> bytes:
        """Return the current page, with the identities of the course replaced by those of this node."""
        pages = self._course.pages
        page = pages[-1 - min(self._pages_behind, len(pages) - 1)]
        body = page.body(syntax)
        for identity in page.ids:
            body = body.replace(identity.encode(), identity.translate(self._digits).encode())
        return body


@dataclass(frozen=True)
class Fleet:
    """The nodes, and the smaller number of courses that they share."""

    courses: tuple[Course, ...]
    nodes: tuple[FleetNode, ...]


def make_fleet(count: int, kinds: tuple[str, ...], courses_per_kind: int) -> Fleet:
    """Return a fleet with the kinds (`8xnvidia`) in turn. The nodes of a kind share a few courses at different times."""
    per_kind = min(courses_per_kind, -(-count // len(kinds)))
    courses = tuple(Course(parse_demo(kind), seed) for seed in range(1, per_kind + 1) for kind in kinds)
    return Fleet(
        courses,
        tuple(
            FleetNode(courses[number % len(courses)], number, number // len(courses) % KEPT_PAGES)
            for number in range(count)
        ),
    )


def lines(page: bytes) -> Iterator[bytes]:
    """Yield the series of a page, without the comments."""
    return (line for line in page.splitlines() if line and not line.startswith(b"#"))
