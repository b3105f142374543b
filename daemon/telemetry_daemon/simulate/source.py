"""The simulated sources of a node: each with the parser and the reader that the real one would have."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from telemetry_daemon.readers.base import Targets
from telemetry_daemon.simulate.course import Course
from telemetry_daemon.simulate.demo import PLAYED, Groups
from telemetry_daemon.simulate.faults import SOME_FAULTS, Faults
from telemetry_daemon.simulate.parse import parse
from telemetry_daemon.simulate.tell import Teller
from telemetry_daemon.times import Clock
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.demo import Demo
from telemetry_parsers.model import Capture, Failure, Library, Output, Poll
from telemetry_parsers.vendor import Vendor
from telemetry_parsers.vendors import VENDORS

_T = TypeVar("_T")
READER = "simulator"
DEFAULT_SEED = 1
_POLLS = (
    Poll("readings", Library(READER), "fast", interval=2.0, deadline=2.0),
    Poll("slow", Library(READER), "slow", interval=60.0, lists_devices=False),
    Poll("inventory", Library(READER), "inventory", interval=300.0, lists_devices=False),
)


class SimulatedReader:
    """Answers the polls of one vendor's source from the course of its cards."""

    def __init__(self, vendor: Vendor, course: Course, teller: Teller, clock: Clock) -> None:
        self._source = vendor.demo.source
        self._course = course
        self._teller = teller
        self._clock = clock
        self._begun = clock.monotonic()
        self._lock = threading.Lock()
        self._keys = _keys(vendor.demo)

    def read(self, poll: Poll, targets: Targets) -> Capture:  # noqa: ARG002  # cards have no targets to repeat
        """How the cards are now; a timeout while the course lets the source fail."""
        monotonic_time, wall_time, cpu = self._clock.monotonic(), self._clock.wall(), time.thread_time()
        with self._lock:
            self._course.advance(monotonic_time - self._begun)
            fails = self._course.fails()
            data = None if fails else self._teller.tell(self._keys[poll.name], self._course, wall_time)
        failure = Failure("failed", "timeout", f"no answer within {poll.deadline:g} s (simulated)") if fails else None
        return Capture(
            source=self._source,
            poll=poll.name,
            request=poll.request,
            outputs=() if fails else (Output(name=poll.name, data=data),),
            failure=failure,
            seconds=poll.deadline if fails else self._clock.monotonic() - monotonic_time,
            cpu_seconds=time.thread_time() - cpu,
            wall_time=wall_time,
            monotonic_time=monotonic_time,
        )

    def look(self, at: Callable[[Course, Teller], _T]) -> _T:
        """What somebody sees at the cards while they do not change."""
        with self._lock:
            return at(self._course, self._teller)

    def close(self) -> None:
        """Nothing runs between two reads."""

    def left_behind(self) -> tuple[int, ...]:
        """None: nothing runs."""
        return ()


class SimulatedSource:
    """One vendor's simulated cards: `parser` says what to poll, `reader` answers."""

    def __init__(
        self,
        word: str,
        count: int,
        *,
        seed: int = DEFAULT_SEED,
        faults: Faults = SOME_FAULTS,
        clock: Clock | None = None,
        first_slot: int = 0,
    ) -> None:
        vendor = PLAYED[word]
        self.parser = parser_of(vendor)
        self.reader = SimulatedReader(
            vendor, Course(vendor, count, seed, faults), Teller(vendor, count, seed, first_slot), clock or Clock()
        )


def simulated_sources(
    groups: Groups, *, seed: int = DEFAULT_SEED, faults: Faults = SOME_FAULTS, clock: Clock | None = None
) -> tuple[SimulatedSource, ...]:
    """A source for each group, with bus addresses that differ over the whole node."""
    made, slot = [], 0
    for vendor, count in groups:
        made.append(SimulatedSource(vendor, count, seed=seed, faults=faults, clock=clock, first_slot=slot))
        slot += count
    return tuple(made)


def parser_of(vendor: Vendor) -> SourceParser:
    """The parser of a vendor's simulated source."""
    keys = _keys(vendor.demo)
    return SourceParser(
        name=vendor.demo.source,
        vendor=vendor.word,
        gives=tuple(key for of_poll in keys.values() for key in of_poll),
        polls=tuple(replace(poll, request=Library(READER, (vendor.word,))) for poll in _POLLS if poll.name in keys),
        parse=parse,
    )


def simulated_parser(capture: Capture) -> SourceParser | None:
    """The parser for a capture that the simulator made, as in a recording of a demo; None for any other."""
    if not isinstance(capture.request, Library) or capture.request.reader != READER:
        return None
    return next((parser_of(vendor) for vendor in VENDORS if vendor.demo.source == capture.source), None)


def _keys(demo: Demo) -> dict[str, tuple[str, ...]]:
    """The keys of the metrics in each poll that has any."""
    keys = {"readings": demo.fast, "slow": demo.slow, "inventory": demo.inventory}
    return {poll: of_poll for poll, of_poll in keys.items() if of_poll}
