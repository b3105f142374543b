"""Decides which polls run early, because their results are outdated."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from operator import attrgetter

from telemetry_daemon.polling import poll_intervals
from telemetry_daemon.polling.source import PollOutcome, Source
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_parsers.merge.presence import DeviceEvent
from telemetry_parsers.model import Device, Poll, Report

SourcePoll = tuple[str, Poll]
# Two device lists are compared by vendor, index, UUID and bus ID.
_Identity = tuple[str, "int | None", "str | None", "str | None"]
_identity_of: Callable[[Device], _Identity] = attrgetter("vendor", "index", "uuid", "bus_id")


class EarlyPolls:
    """Selects polls to run early when device lists change."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._device_lists: dict[tuple[str, str], list[_Identity]] = {}

    def polls_after(
        self, source: Source, poll: Poll, outcome: PollOutcome, events: Iterable[DeviceEvent], sources: list[Source]
    ) -> Iterator[SourcePoll]:
        """Yield the polls that must run at once because of this outcome."""
        devices_changed = poll.lists_devices and self._remember_devices((source.name, poll.name), outcome.report)
        if devices_changed or events:
            yield from self._other_non_fast_polls(source, poll)
            yield from self._outdated_device_list_polls(source, sources)
        if poll.lists_devices and outcome.result.state == "ok":
            yield from self._dependent_polls(source.parser.vendor, sources)

    def forget(self, source: Source) -> None:
        """Forget the device lists of a source."""
        for poll in source.parser.polls:
            self._device_lists.pop((source.name, poll.name), None)

    def _remember_devices(self, key: tuple[str, str], report: Report | None) -> bool:
        """Store the poll's device list, and return whether it changed."""
        if report is None:
            return False
        devices = list(map(_identity_of, report.devices))
        previous = self._device_lists.get(key, devices)
        self._device_lists[key] = devices
        return devices != previous

    def _other_non_fast_polls(self, source: Source, poll: Poll) -> Iterator[SourcePoll]:
        for other_poll in source.parser.polls:
            has_run = self._store.health_of((source.name, other_poll.name)) is not None
            if has_run and other_poll.tier != "fast" and other_poll.name != poll.name:
                yield source.name, other_poll

    def _outdated_device_list_polls(self, source: Source, sources: Collection[Source]) -> Iterator[SourcePoll]:
        """Yield polls that list devices, belong to another source of the vendor, and did not run recently."""
        now = self._clock.monotonic()
        for other_source in _vendor_sources(source.parser.vendor, sources):
            for poll in other_source.parser.polls:
                health = self._store.health_of((other_source.name, poll.name))
                if other_source is source or not poll.lists_devices or health is None:
                    continue
                if now - health.attempted_monotonic >= poll_intervals.LIST_AGAIN_SECONDS:
                    yield other_source.name, poll

    def _dependent_polls(self, vendor: str, sources: Collection[Source]) -> Iterator[SourcePoll]:
        """Yield polls that are in state `no_devices` and belong to a source of the vendor that lists no devices."""
        for source in _vendor_sources(vendor, sources):
            if any(poll.lists_devices for poll in source.parser.polls):
                continue
            for poll in source.parser.polls:
                health = self._store.health_of((source.name, poll.name))
                if health is not None and health.state == "no_devices":
                    yield source.name, poll


def _vendor_sources(vendor: str, sources: Collection[Source]) -> Iterator[Source]:
    return (source for source in sources if source.parser.vendor == vendor)
