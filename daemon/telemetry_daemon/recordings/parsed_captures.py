"""Parses recorded captures, and passes the reports to a store."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from telemetry_daemon.plugins.loading import ParserSet
from telemetry_daemon.recordings.survey import PollKey, Survey
from telemetry_daemon.simulate.jobs import simulated_parser
from telemetry_daemon.state.health import SourceFacts, result_of
from telemetry_daemon.state.store import Store
from telemetry_daemon.terminal.exits import CommandError
from telemetry_daemon.terminal.log import ChangeLog
from telemetry_daemon.times import Clock
from telemetry_exporters.text import clean, first_names
from telemetry_parsers.contract import Parser
from telemetry_parsers.model import Capture, Poll, Report

log = logging.getLogger(__name__)


class CaptureParser:
    """Parses captures, including those of simulated sources."""

    def __init__(self, loaded: ParserSet) -> None:
        self._installed: dict[str, Parser] = {item.parser.name: item.parser for item in loaded.parsers}

    def parser_of(self, capture: Capture) -> Parser | None:
        """Return the parser for the capture's source, or None if it is not installed."""
        return simulated_parser(capture) or self._installed.get(capture.source)

    def parse(self, capture: Capture) -> Report | None:
        """Return the report of a capture, or None if it cannot be parsed."""
        return report_of(capture, self.parser_of(capture))


def report_of(capture: Capture, parser: Parser | None) -> Report | None:
    """Return the report of a capture, or None if the poll or the parser failed."""
    if parser is None or capture.failure is not None:
        return None
    try:
        return parser.parse(capture)
    except Exception:  # noqa: BLE001  # a bug in a parser: the mask then finds identities only by their shape
        return None


def abbreviated_names(names: Iterable[str]) -> str:
    """Return the first three names, and how many were omitted, as printable text."""
    return first_names([*map(clean, names)], ", ", limit=3)


def parsers_by_source(survey: Survey, parser_set: ParserSet) -> Mapping[str, Parser]:
    """Return the parsers of the recorded sources. Raise CommandError if none is installed."""
    capture_parser = CaptureParser(parser_set)
    matches = {name: capture_parser.parser_of(capture) for name, capture in sorted(survey.examples.items())}
    parsers = {name: parser for name, parser in matches.items() if parser is not None}
    if not parsers:
        raise CommandError(f"no installed parser reads the recorded {abbreviated_names(matches)}; install its plugin")
    return parsers


class StoreFeed:
    """Passes recorded captures to a store, as live polls do."""

    def __init__(
        self, store: Store, clock: Clock, parsers: Mapping[str, Parser], intervals: Mapping[PollKey, float]
    ) -> None:
        self._store = store
        self._clock = clock
        self._parsers = parsers
        self._intervals = intervals
        self._polls: Mapping[PollKey, Poll] = {
            (name, poll.name): poll for name, parser in parsers.items() for poll in parser.polls
        }
        self._changes = ChangeLog()

    def add_sources(self) -> None:
        """Add all sources. New devices stay hidden until the inventory polls have reported."""
        inventory_polls = {key: self._parsers[key[0]].vendor for key in self._intervals if self._lists_devices(key)}
        for name, parser in self._parsers.items():
            facts = SourceFacts(name, parser.vendor, parser.gives, any(source == name for source, _ in inventory_polls))
            self._store.add_source(facts, parser.metrics)
        self._store.await_inventories(inventory_polls)

    def put(self, capture: Capture, late_seconds: float) -> None:
        """Pass a capture to the store as if its poll ended `late_seconds` ago."""
        key = (capture.source, capture.poll)
        poll = self._polls.get(key)
        if poll is None:
            return
        seconds_since_start = late_seconds + capture.seconds
        start, wall_time = self._clock.monotonic() - seconds_since_start, self._clock.wall() - seconds_since_start
        capture = replace(capture, monotonic_time=start, wall_time=wall_time)
        report = self._parse(capture)
        # A replay does not look for a missing tool again, so the tool's report must not expire.
        is_missing = capture.failure is not None and capture.failure.state == "missing"
        interval = math.inf if is_missing else max(poll.interval, self._intervals.get(key, 0.0))
        self._store.put(capture.source, poll, capture, report, result_of(capture, report, 0), interval)

    def _lists_devices(self, key: PollKey) -> bool:
        return key in self._polls and self._polls[key].lists_devices

    def _parse(self, capture: Capture) -> Report | None:
        if capture.failure is not None:
            return None
        try:
            return self._parsers[capture.source].parse(capture)
        except Exception as error:  # a bug in a parser affects only the readings of its source
            if self._changes.changed((capture.source, capture.poll), str(error)):
                log.exception("parser failed", extra={"source": capture.source, "poll": capture.poll})
            return None
