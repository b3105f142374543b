"""Polls all sources once, in parallel and with a common deadline, and returns a snapshot."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from telemetry_daemon.polling.node_sources import reports_owners
from telemetry_daemon.polling.source import PollOutcome, Source
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.state.health import PollResult, SourceFacts
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_parsers.contract import Parser
from telemetry_parsers.merge.peaks import PeakFinder
from telemetry_parsers.model import Command, Failure, Poll, Snapshot, Tier

if TYPE_CHECKING:  # imported at run time only if owners are reported
    from telemetry_daemon.state.attribution import Attribution

# A reader may use this share of the remaining time. Parsing and merging use the rest.
_READER_SHARE = 0.8
# Readings must not expire while the slowest source is polled.
_VALIDITY_SECONDS = 3600.0
_TIER_ORDER: tuple[Tier, ...] = ("inventory", "fast", "slow")

_REPORT_SLOW_AFTER_SECONDS = 0.5

# Returns the outcome to use: the given one or a replacement, such as the daemon's readings.
Substitute = Callable[[Source, PollOutcome], PollOutcome]


def keep_outcome(_source: Source, outcome: PollOutcome) -> PollOutcome:
    """Return the outcome unchanged."""
    return outcome


def ignore_waiting(_waiting: Sequence[str]) -> None:
    """Ignore the names of the sources that have not answered yet."""


def _lists_devices(source: Source) -> bool:
    return any(poll.lists_devices for poll in source.parser.polls)


def _is_per_device(poll: Poll) -> bool:
    return isinstance(poll.request, Command) and poll.request.per is not None


def _waits_for(parser: Parser, other: Parser) -> bool:
    """Return whether a parser needs devices that the other parser lists."""
    return other.vendor == parser.vendor or (reports_owners(parser) and bool(other.vendor))


class OneShot:
    """Polls a set of sources together, on request."""

    def __init__(
        self,
        hostname: str,
        sources: Sequence[Source],
        clock: Clock,
        substitute: Substitute = keep_outcome,
        on_waiting: Callable[[Sequence[str]], None] = ignore_waiting,
        peaks: PeakFinder | None = None,
    ) -> None:
        self._hostname = hostname
        self._on_waiting = on_waiting
        self._peaks = peaks
        self._sources = sources
        self._clock = clock
        self._substitute = substitute
        self._primed_until: dict[str, float] = {}

    def read(self, tiers: Iterable[Tier], timeout_seconds: float) -> Snapshot:
        """Poll all sources within the time limit, and return a snapshot."""
        store = Store(self._hostname, self._clock, attribution=self._create_attribution())
        store.facts.set_peaks(self._peaks)
        tier_order = [tier for tier in _TIER_ORDER if tier in set(tiers)]
        start_time = self._clock.monotonic()
        deadline = start_time + timeout_seconds
        threads: list[tuple[threading.Thread, Source, list[Poll]]] = []
        for source in sorted(self._sources, key=lambda source: not _lists_devices(source)):
            parser = source.parser
            facts = SourceFacts.from_parser(parser)
            store.add_source(facts, parser.metrics)
            polls = sorted(
                (poll for poll in parser.polls if poll.tier in tier_order),
                key=lambda poll: (_is_per_device(poll), tier_order.index(poll.tier)),
            )
            predecessors = [
                thread for thread, other, _ in threads if not facts.lists_devices and _waits_for(parser, other.parser)
            ]
            arguments = (store, source, polls, deadline, predecessors)
            thread = threading.Thread(target=self._read_source, args=arguments, daemon=True)
            thread.start()
            threads.append((thread, source, polls))
        self._wait_for_threads({source.name: thread for thread, source, _ in threads}, deadline)
        for thread, source, polls in threads:
            if thread.is_alive():
                self._put_timeouts(store, source, polls, start_time, timeout_seconds)
        return store.snapshot()

    def _wait_for_threads(self, threads: Mapping[str, threading.Thread], deadline: float) -> None:
        now = self._clock.monotonic()
        reported: tuple[str, ...] = ()
        report_from = now + _REPORT_SLOW_AFTER_SECONDS
        while (alive := {name: thread for name, thread in threads.items() if thread.is_alive()}) and now < deadline:
            if now >= report_from and tuple(alive) != reported:
                reported = tuple(alive)
                self._on_waiting(reported)
            pause = _REPORT_SLOW_AFTER_SECONDS if now >= report_from else report_from - now
            next(iter(alive.values())).join(min(pause, deadline - now))
            now = self._clock.monotonic()
        if reported:
            self._on_waiting(())

    def _create_attribution(self) -> Attribution | None:
        if not any(reports_owners(source.parser) for source in self._sources):
            return None
        from telemetry_daemon.state.attribution import Attribution  # not needed on most nodes

        return Attribution(self._clock)

    def prime(self, name: str, gap_seconds: float) -> None:
        """Poll a source once, so that its next poll can compute an average over at least `gap_seconds`."""
        for source in self._sources:
            if source.name == name:
                for poll in source.parser.polls:
                    source.run_poll(poll, Targets())
                self._primed_until[name] = self._clock.monotonic() + gap_seconds

    def close(self) -> None:
        """Stop all polls that are still running."""
        for source in self._sources:
            source.close()

    def _read_source(
        self, store: Store, source: Source, polls: Sequence[Poll], deadline: float, predecessors: list[threading.Thread]
    ) -> None:
        for thread in predecessors:
            thread.join(max(0.0, deadline - self._clock.monotonic()))
        # A primed source computes averages over the time since its first poll. Wait until that time is long enough.
        time.sleep(max(0.0, min(deadline, self._primed_until.get(source.name, 0.0)) - self._clock.monotonic()))
        for poll in polls:
            remaining = deadline - self._clock.monotonic()
            if remaining <= 0:
                return
            outcome = source.run_poll(poll, store.targets(source.name), remaining * _READER_SHARE)
            outcome = self._substitute(source, outcome)
            if self._clock.monotonic() < deadline:
                store.put(source.name, poll, outcome.capture, outcome.report, outcome.result, _VALIDITY_SECONDS)

    def _put_timeouts(
        self, store: Store, source: Source, polls: Sequence[Poll], start: float, timeout_seconds: float
    ) -> None:
        failure = Failure("failed", "timeout", f"no answer within {timeout_seconds:g} s")
        for poll in polls:
            if store.health_of((source.name, poll.name)) is None:
                outcome = source.outcome_without_poll(poll, failure)
                capture = replace(outcome.capture, seconds=timeout_seconds, monotonic_time=start)
                result = PollResult(failure.state, failure.reason, failure.text)
                store.put(source.name, poll, capture, None, result, _VALIDITY_SECONDS)
