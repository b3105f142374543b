"""Decides which polls run early because another answer shows that their results are outdated."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from operator import attrgetter

from telemetry_daemon.polling import poll_intervals
from telemetry_daemon.polling.source import Answer, Source
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_parsers.merge.presence import DeviceEvent
from telemetry_parsers.model import Device, Poll, Report

SourcePoll = tuple[str, Poll]
# Identifies a device. Two lists of the same devices are equal.
_Identity = tuple[str, "int | None", "str | None", "str | None"]
_IDENTITY: Callable[[Device], _Identity] = attrgetter("vendor", "index", "uuid", "bus_id")


class OutOfTurn:
    """Remembers the newest list of each poll. A poll without a first answer is left out: it is due anyway."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._listed: dict[tuple[str, str], list[_Identity]] = {}

    def after(
        self, source: Source, poll: Poll, answer: Answer, events: Iterable[DeviceEvent], sources: Collection[Source]
    ) -> Iterator[SourcePoll]:
        """Yield the polls to run at once after this answer, each with its source's name."""
        lists_others = poll.lists_devices and self._lists_others((source.name, poll.name), answer.report)
        if lists_others or events:
            yield from self._rarer(source, poll)
            yield from self._other_lists(source, sources)
        if poll.lists_devices and answer.result.state == "ok":
            yield from self._without_a_device_until_now(source.parser.vendor, sources)

    def forget(self, source: Source) -> None:
        """Forget the lists of a source, so that its next lists count as first lists."""
        for poll in source.parser.polls:
            self._listed.pop((source.name, poll.name), None)

    def _lists_others(self, key: tuple[str, str], report: Report | None) -> bool:
        """Return whether the devices differ from the poll's previous list, so that an index may mean another device."""
        if report is None:
            return False
        now = list(map(_IDENTITY, report.devices))
        previous = self._listed.get(key, now)
        self._listed[key] = now
        return now != previous

    def _rarer(self, source: Source, poll: Poll) -> Iterator[SourcePoll]:
        for other in source.parser.polls:
            if other.tier != "fast" and other.name != poll.name and self._store.health_of((source.name, other.name)):
                yield source.name, other

    def _other_lists(self, source: Source, sources: Collection[Source]) -> Iterator[SourcePoll]:
        """Yield the lists of the vendor's other sources: an old list would keep a lost card with its old readings."""
        now = self._clock.monotonic()
        for other in _of_vendor(source.parser.vendor, sources):
            for poll in other.parser.polls:
                health = self._store.health_of((other.name, poll.name))
                if other is source or not poll.lists_devices or health is None:
                    continue
                if now - health.attempted_monotonic >= poll_intervals.LIST_AGAIN_SECONDS:
                    yield other.name, poll

    def _without_a_device_until_now(self, vendor: str, sources: Collection[Source]) -> Iterator[SourcePoll]:
        """Yield polls that had no device to run for, of sources without their own list."""
        for other in _of_vendor(vendor, sources):
            if any(poll.lists_devices for poll in other.parser.polls):
                continue
            for poll in other.parser.polls:
                health = self._store.health_of((other.name, poll.name))
                if health is not None and health.state == "no_devices":
                    yield other.name, poll


def _of_vendor(vendor: str, sources: Collection[Source]) -> Iterator[Source]:
    return (source for source in sources if source.parser.vendor == vendor)
