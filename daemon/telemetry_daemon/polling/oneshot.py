"""Reads all sources once, in parallel under one deadline, into one snapshot."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from telemetry_daemon.polling.node_sources import reports_owners
from telemetry_daemon.polling.source import Answer, Source
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.state.health import PollResult, SourceFacts
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_parsers.contract import Parser
from telemetry_parsers.merge.peaks import Peaks
from telemetry_parsers.model import Command, Failure, Poll, Snapshot, Tier

if TYPE_CHECKING:  # imported only if owners are reported
    from telemetry_daemon.state.attribution import Attribution

# The share of the remaining time that a reader may use: its answer must also be parsed and merged in time.
_READER_SHARE = 0.8
# Readings of a single snapshot must not expire while the slowest source is read.
_LIFE_SECONDS = 3600.0
_TIER_ORDER: tuple[Tier, ...] = ("inventory", "fast", "slow")

# A wait this short needs no message.
_SILENT_SECONDS = 0.5

# Replaces an answer, for example by the running daemon's.
Substitute = Callable[[Source, Answer], Answer]


def keep(_source: Source, answer: Answer) -> Answer:
    """Return the answer unchanged."""
    return answer


def ignore_waiting(_waiting: Sequence[str]) -> None:
    """Do not report slow sources."""


def _lists_devices(source: Source) -> bool:
    return any(poll.lists_devices for poll in source.parser.polls)


def _is_repeated(poll: Poll) -> bool:
    """Return whether the poll is repeated per device, so that another poll must list the devices first."""
    return isinstance(poll.request, Command) and poll.request.per is not None


def _waits_for(parser: Parser, other: Parser) -> bool:
    """Return whether a source needs the other source's list: its vendor's cards, or the processes on any card."""
    return other.vendor == parser.vendor or (reports_owners(parser) and bool(other.vendor))


class OneShot:
    """Sources that are polled together, on request."""

    def __init__(
        self,
        hostname: str,
        sources: Sequence[Source],
        clock: Clock,
        substitute: Substitute = keep,
        on_waiting: Callable[[Sequence[str]], None] = ignore_waiting,
        peaks: Peaks | None = None,
    ) -> None:
        self._hostname = hostname
        self._on_waiting = on_waiting
        self._peaks = peaks
        self._sources = sources
        self._clock = clock
        self._substitute = substitute
        self._not_before: dict[str, float] = {}

    def read(self, tiers: Iterable[Tier], timeout_seconds: float) -> Snapshot:
        """Return one snapshot of all sources. A poll without an answer in time fails with the reason `timeout`."""
        store = Store(self._hostname, self._clock, attribution=self._attribution())
        store.facts.set_peaks(self._peaks)
        tier_order = [tier for tier in _TIER_ORDER if tier in set(tiers)]
        began = self._clock.monotonic()
        until = began + timeout_seconds
        threads: list[tuple[threading.Thread, Source, list[Poll]]] = []
        for source in sorted(self._sources, key=lambda source: not _lists_devices(source)):
            parser = source.parser
            facts = SourceFacts.of(parser)
            store.add_source(facts, parser.metrics)
            polls = sorted(
                (poll for poll in parser.polls if poll.tier in tier_order),
                key=lambda poll: (_is_repeated(poll), tier_order.index(poll.tier)),
            )
            awaited = [
                thread for thread, other, _ in threads if not facts.lists_devices and _waits_for(parser, other.parser)
            ]
            arguments = (store, source, polls, until, awaited)
            thread = threading.Thread(target=self._read_source, args=arguments, daemon=True)
            thread.start()
            threads.append((thread, source, polls))
        self._wait({source.name: thread for thread, source, _ in threads}, until)
        for thread, source, polls in threads:
            if thread.is_alive():
                self._give_up(store, source, polls, began, timeout_seconds)
        return store.snapshot()

    def _wait(self, threads: Mapping[str, threading.Thread], until: float) -> None:
        now = self._clock.monotonic()
        reported: tuple[str, ...] = ()
        report_at = now + _SILENT_SECONDS
        while (alive := {name: thread for name, thread in threads.items() if thread.is_alive()}) and now < until:
            if now >= report_at and tuple(alive) != reported:
                reported = tuple(alive)
                self._on_waiting(reported)
            pause = _SILENT_SECONDS if now >= report_at else report_at - now
            next(iter(alive.values())).join(min(pause, until - now))
            now = self._clock.monotonic()
        if reported:
            self._on_waiting(())

    def _attribution(self) -> Attribution | None:
        if not any(reports_owners(source.parser) for source in self._sources):
            return None
        from telemetry_daemon.state.attribution import Attribution  # most nodes report no owners

        return Attribution(self._clock)

    def prime(self, name: str, gap_seconds: float) -> None:
        """Poll one source and drop the answer: values such as the CPU's load are measured from the previous answer on."""
        for source in self._sources:
            if source.name == name:
                for poll in source.parser.polls:
                    source.ask(poll, Targets())
                self._not_before[name] = self._clock.monotonic() + gap_seconds

    def close(self) -> None:
        """Stop all running polls."""
        for source in self._sources:
            source.close()

    def _read_source(
        self, store: Store, source: Source, polls: Sequence[Poll], until: float, awaited: Sequence[threading.Thread]
    ) -> None:
        for thread in awaited:
            thread.join(max(0.0, until - self._clock.monotonic()))
        time.sleep(max(0.0, min(until, self._not_before.get(source.name, 0.0)) - self._clock.monotonic()))
        for poll in polls:
            left = until - self._clock.monotonic()
            if left <= 0:
                return
            answer = source.ask(poll, store.targets(source.name), left * _READER_SHARE)
            answer = self._substitute(source, answer)
            if self._clock.monotonic() < until:
                store.put(source.name, poll, answer.capture, answer.report, answer.result, _LIFE_SECONDS)

    def _give_up(self, store: Store, source: Source, polls: Sequence[Poll], began: float, seconds: float) -> None:
        failure = Failure("failed", "timeout", f"no answer within {seconds:g} s")
        for poll in polls:
            if store.health_of((source.name, poll.name)) is None:
                capture = replace(source.not_asked(poll, failure).capture, seconds=seconds, monotonic_time=began)
                result = PollResult(failure.state, failure.reason, failure.text)
                store.put(source.name, poll, capture, None, result, _LIFE_SECONDS)
