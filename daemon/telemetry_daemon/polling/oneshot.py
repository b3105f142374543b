"""Everything read once: all sources in parallel under one deadline, into one snapshot."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from telemetry_daemon.polling.node_sources import tells_owners
from telemetry_daemon.polling.source import Answer, Source
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.state.health import PollResult, SourceFacts
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_parsers.contract import Parser
from telemetry_parsers.merge.peaks import Peaks
from telemetry_parsers.model import Command, Failure, Poll, Snapshot, Tier

if TYPE_CHECKING:  # imported where owners are told
    from telemetry_daemon.state.attribution import Attribution

# The share of the time left that a reader may use: its answer must still be parsed and merged before the end.
_READER_SHARE = 0.8
# Readings of a single snapshot must not expire while the slowest source is read.
_LIFE_SECONDS = 3600.0
_TIER_ORDER: tuple[Tier, ...] = ("inventory", "fast", "slow")

# As long nobody wonders what is waited for.
_SILENT_SECONDS = 0.5

# Gives an answer to use instead, such as the running daemon's own.
Substitute = Callable[[Source, Answer], Answer]


def keep(_source: Source, answer: Answer) -> Answer:
    """The answer as it is."""
    return answer


def tell_nobody(_waiting: Sequence[str]) -> None:
    """Say nothing of who lets us wait."""


def _lists_devices(source: Source) -> bool:
    return any(poll.lists_devices for poll in source.parser.polls)


def _is_repeated(poll: Poll) -> bool:
    """Whether the poll is repeated for each device, so that another poll must list the devices first."""
    return isinstance(poll.request, Command) and poll.request.per is not None


def _waits_for(parser: Parser, other: Parser) -> bool:
    """Whether a source needs what the other lists: the cards of its vendor, or the processes on any."""
    return other.vendor == parser.vendor or (tells_owners(parser) and bool(other.vendor))


class OneShot:
    """Sources that are read when asked, together."""

    def __init__(
        self,
        hostname: str,
        sources: Sequence[Source],
        clock: Clock,
        substitute: Substitute = keep,
        tell_waiting: Callable[[Sequence[str]], None] = tell_nobody,
        peaks: Peaks | None = None,
    ) -> None:
        self._hostname = hostname
        self._tell_waiting = tell_waiting
        self._peaks = peaks
        self._sources = sources
        self._clock = clock
        self._substitute = substitute
        self._not_before: dict[str, float] = {}

    def read(self, tiers: Iterable[Tier], timeout_seconds: float) -> Snapshot:
        """One snapshot of all sources; a poll that has not answered in time has failed with `timeout`."""
        store = Store(self._hostname, self._clock, attribution=self._attribution())
        store.facts.set_peaks(self._peaks)
        tier_order = [tier for tier in _TIER_ORDER if tier in set(tiers)]
        began = self._clock.monotonic()
        until = began + timeout_seconds
        threads: list[tuple[threading.Thread, Source, list[Poll]]] = []
        for source in sorted(self._sources, key=lambda source: not _lists_devices(source)):
            parser = source.parser
            lists = _lists_devices(source)
            store.add_source(SourceFacts(source.name, parser.vendor, parser.gives, lists), parser.metrics)
            polls = sorted(
                (poll for poll in parser.polls if poll.tier in tier_order),
                key=lambda poll: (_is_repeated(poll), tier_order.index(poll.tier)),
            )
            awaited = [thread for thread, other, _ in threads if not lists and _waits_for(parser, other.parser)]
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
        """Until all threads have ended, or that time; who lets us wait is told, and in the end that nobody does."""
        now = self._clock.monotonic()
        told: tuple[str, ...] = ()
        tell_at = now + _SILENT_SECONDS
        while (alive := {name: thread for name, thread in threads.items() if thread.is_alive()}) and now < until:
            if now >= tell_at and tuple(alive) != told:
                told = tuple(alive)
                self._tell_waiting(told)
            pause = _SILENT_SECONDS if now >= tell_at else tell_at - now
            next(iter(alive.values())).join(min(pause, until - now))
            now = self._clock.monotonic()
        if told:
            self._tell_waiting(())

    def _attribution(self) -> Attribution | None:
        """What finds the owners of the cards, where a source tells of them."""
        if not any(tells_owners(source.parser) for source in self._sources):
            return None
        from telemetry_daemon.state.attribution import Attribution  # most nodes tell of none

        return Attribution(self._clock)

    def prime(self, name: str, gap_seconds: float) -> None:
        """Ask one source and drop the answer: its next answer is counted from this one, such as the CPU's load.

        It is asked again after the gap at the earliest; the other sources are asked meanwhile.
        """
        for source in self._sources:
            if source.name == name:
                for poll in source.parser.polls:
                    source.ask(poll, Targets())
                self._not_before[name] = self._clock.monotonic() + gap_seconds

    def close(self) -> None:
        """End whatever still runs."""
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
