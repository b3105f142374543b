"""What is known now: the newest report of each poll, merged into a snapshot on every change and expiry."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from telemetry_daemon.readers.base import Targets
from telemetry_daemon.state import health
from telemetry_daemon.state.accumulate import Accumulator
from telemetry_daemon.state.events import OpenEvents
from telemetry_daemon.state.health import PollResult, SourceFacts, Statuses
from telemetry_daemon.state.known import Key, Known, Taken
from telemetry_daemon.state.node_facts import NodeFacts
from telemetry_daemon.times import Clock
from telemetry_parsers import bounds
from telemetry_parsers.merge.admission import admit, short
from telemetry_parsers.merge.memory import MergeState
from telemetry_parsers.merge.merged import Merged, merge, with_unread
from telemetry_parsers.merge.report_columns import offered
from telemetry_parsers.model import (
    Capture,
    Health,
    Identity,
    MergedDevice,
    Metric,
    Poll,
    Report,
    Snapshot,
)
from telemetry_parsers.recorded import Recorded

if TYPE_CHECKING:  # imported if it is switched on
    from telemetry_daemon.state.attribution import Attribution
    from telemetry_daemon.state.steps import Steps

FIRST_INVENTORY_SECONDS = 15.0
SHORTEST_SLEEP_SECONDS = 1.0  # two clocks are never read at the very same moment
UNRESOLVED = "telemetry_claims_unresolved"


class Store:
    """Accepts the results of polls and returns snapshots, from any thread. Without an accumulator there are no counters of our own."""

    def __init__(
        self,
        hostname: str,
        clock: Clock,
        identities: tuple[Identity, ...] = (),
        accumulator: Accumulator | None = None,
        recorded: Callable[[], Recorded] | None = None,
        attribution: Attribution | None = None,
    ) -> None:
        self._hostname = hostname if recorded is None else recorded().hostname
        self._recorded = recorded
        self._clock = clock
        self._lock = threading.RLock()
        self.facts = NodeFacts(self._lock, self._drop_snapshot)
        self._known = Known(MergeState(identities=identities), slept=clock.slept(), started_wall=clock.wall())
        self._known.wall_ahead = self._clock.wall_ahead()
        self._accumulator = accumulator
        self._attribution = attribution
        self._steps: Steps | None = None
        self._statuses = Statuses()
        self._merged: Merged | None = None
        self._owned: Merged | None = None  # the same with the owners of its devices
        self._snapshot: Snapshot | None = None
        self._still: Snapshot | None = None  # what is shown while a replay seeks
        self._tell_change: Callable[[], None] = lambda: None

    def start_anew(self) -> None:
        """Drop all reports and their results, for a recording that seeks."""
        with self._lock:
            self._known = self._known.anew()
            self._known.wall_ahead = self._clock.wall_ahead()
            if self._accumulator is not None:
                self._accumulator = self._accumulator.anew()
            self._merged = self._owned = self._snapshot = None

    def renew(self) -> None:
        """Rebuild the next snapshot, because the state of the replay has changed."""
        with self._lock:
            self._snapshot = None
            if self._still is not None and self._still.recorded is not None and self._recorded is not None:
                replay = replace(self._recorded(), shown=self._still.recorded.shown)
                self._still = replace(self._still, recorded=replay)
        self._tell_change()

    @contextlib.contextmanager
    def still(self) -> Iterator[None]:
        """Meanwhile `snapshot` gives what is known at the beginning."""
        with self._lock:
            self._snapshot = None
            self._still = self.current()
        try:
            yield
        finally:
            with self._lock:
                self._still = None

    def add_source(self, facts: SourceFacts, metrics: tuple[Metric, ...] = ()) -> None:
        """Make a source known before its first report."""
        with self._lock:
            self._known.sources[facts.source] = facts
            self._known.metrics = {**self._known.metrics, **{metric.key: metric for metric in metrics}}

    def remove_source(self, source: str) -> None:
        """Drop a source with all its reports."""
        with self._lock:
            known = self._known
            for key in [key for key in known.healths if key[0] == source]:
                known.removed[key] = known.healths.pop(key)
                known.reports.pop(key, None)
                known.refused.pop(key, None)
                known.awaited.pop(key, None)
            known.sources.pop(source, None)
            if self._accumulator is not None:
                self._accumulator.events.remove_source(source)
            self._merged = self._snapshot = None

    def await_first(self, polls: Mapping[Key, str]) -> None:
        """Name new devices of these vendors only when these polls have ended, or after 15 s."""
        with self._lock:
            self._known.awaited = dict(polls)
            self._known.awaited_until = self._clock.monotonic() + FIRST_INVENTORY_SECONDS

    def tell_changes(self, tell: Callable[[], None]) -> None:
        """Have this called after each attempt, by the thread that brought it."""
        self._tell_change = tell

    def put(
        self, source: str, poll: Poll, capture: Capture, report: Report | None, result: PollResult, interval: float
    ) -> Taken:
        """Take in one attempt, with its report within the bounds. A source that was removed is ignored."""
        taken = self._take(source, poll, capture, report, result, interval)
        self._tell_change()
        return taken

    def _take(
        self, source: str, poll: Poll, capture: Capture, report: Report | None, result: PollResult, interval: float
    ) -> Taken:
        key = (source, poll.name)
        with self._lock:
            self._notice_sleep()
            known = self._known
            if source not in known.sources:
                return Taken()
            admitted = admit(report or Report(), known.state.identities)
            report = admitted.report if report is not None else None
            result = replace(result, detail=short(result.detail, bounds.LONGEST_TEXT))
            previous = known.healths.get(key) or known.removed.get(key)
            known.healths[key] = health.attempt(source, poll, capture, result, interval, previous)
            known.cpu_seconds[source] = known.cpu_seconds.get(source, 0.0) + capture.cpu_seconds
            known.awaited.pop(key, None)
            before = known.reports.pop(key, None)
            if health.ends_source(result, poll):
                known.reports = {other: one for other, one in known.reports.items() if other[0] != source}
            known.refused[key] = admitted.refused
            if report is not None and result.state in ("ok", "no_devices"):
                source_report = known.source_report(source, poll, capture, report, interval)
                known.reports[key] = offered(source_report, known.metrics, before)
            elif before is not None and before.report.report.claims:
                known.reports[key] = before  # a restarting kubelet takes no card away: claims expire
            merged = self._merge(self._clock.monotonic())
            if report is not None and self._accumulator is not None:
                ids = merged.positions.get(key, ())
                self._accumulator.take(key, ids, report.events, capture.wall_time)
            events, known.unreported = known.unreported, ()
            needs_counters, known.has_limits = known.has_limits, False
            problems = admitted.report.problems if result.state == "ok" else ()
            return Taken(report, events, (*problems, *merged.problems_of(source)), needs_counters)

    def count_overrun(self, key: Key) -> None:
        """Note that a poll was due while it was still running."""
        with self._lock:
            if key in self._known.healths:
                self._known.healths[key] = health.overrun(self._known.healths[key])
                self._snapshot = None

    def snapshot(self) -> Snapshot:
        """The node as it is shown now; the same object until something changes or expires."""
        return self._still or self.current()

    def current(self) -> Snapshot:
        """The node as it is known now, also while what is shown stands still."""
        kept = self._valid()  # without the lock: a scrape does not wait for a poll that is just being taken in
        if kept is not None:
            return kept
        with self._lock:
            self._notice_sleep()
            kept = self._valid()
            if kept is not None:
                return kept
            now, merged = self._clock.monotonic(), self._owned
            if self._merged is None or merged is None or merged.valid_until <= now or self._known.end_waiting(now):
                merged = self._merge(now)
            self._snapshot = self._assemble(merged, now)
            return self._snapshot

    def _valid(self) -> Snapshot | None:
        kept = self._snapshot
        holds = kept is not None and self._clock.monotonic() < kept.valid_until and not self._has_slept()
        return kept if holds else None

    def ready(self) -> tuple[bool, str]:
        """Whether every source has ended its first poll or used up its time, and a text that names those awaited."""
        with self._lock:
            waiting = sorted({source for source, _ in self._known.awaited})
            if not waiting or self._clock.monotonic() >= self._known.awaited_until:
                return True, "ready"
            return False, "waiting for the first poll of " + ", ".join(waiting)

    def targets(self, source: str) -> Targets:
        """Return the devices of the source's newest list, else of its vendor's; a source without a vendor gets the processes on all devices, too."""
        with self._lock:
            facts = self._known.sources.get(source, SourceFacts(source, "", ()))
            reports = [offered_report.report for offered_report in self._known.reports.values()]
        own = [report for report in reports if report.source == source or not facts.lists_devices]
        targets = Targets.of([one for one in own if one.lists_devices and facts.vendor in ("", one.vendor)])
        if facts.vendor:
            return targets
        return replace(targets, pids=tuple(dict.fromkeys(item.pid for one in reports for item in one.report.processes)))

    def health_of(self, key: Key) -> Health | None:
        """The health of one poll, None before its first attempt."""
        with self._lock:
            self._notice_sleep()
            return self._known.healths.get(key)

    def identities(self) -> tuple[Identity, ...]:
        """What to remember over a restart."""
        with self._lock:
            return self._known.state.identities

    def open_events(self) -> tuple[OpenEvents, ...]:
        """The events to remember over a restart."""
        with self._lock:
            return self._accumulator.events.opened() if self._accumulator is not None else ()

    def close_events(self, device_id: str) -> tuple[str, ...]:
        """End the open events of a device; returns their codes."""
        with self._lock:
            self._snapshot = None
            return self._accumulator.close(device_id) if self._accumulator is not None else ()

    def lost(self) -> tuple[str, ...]:
        """The ids of the lost devices, which can be forgotten."""
        return tuple(identity.id for identity in self.identities() if identity.lost_since is not None)

    def unchanged(self) -> threading.RLock:
        """While it is held nothing is taken in."""
        return self._lock

    def forget(self, chosen: Callable[[Identity], bool]) -> tuple[str, ...]:
        """Forget those of the lost devices that are chosen; returns their ids."""
        with self._lock:
            state = self._known.state
            gone = tuple(
                identity.id for identity in state.identities if identity.lost_since is not None and chosen(identity)
            )
            if gone:
                kept = tuple(identity for identity in state.identities if identity.id not in frozenset(gone))
                self._known.state = replace(state, identities=kept, forgotten={})
                self._merged = self._snapshot = None
            if self._accumulator is not None:
                for device_id in gone:
                    self._accumulator.forget(device_id)
            return gone

    def _drop_snapshot(self) -> None:
        self._snapshot = None

    def _has_slept(self) -> bool:
        return self._clock.slept() - self._known.slept >= SHORTEST_SLEEP_SECONDS

    def _notice_sleep(self) -> None:
        """Drop all reports after the machine was suspended: the clock of their age stood still meanwhile."""
        if not self._has_slept():
            return
        known = self._known
        known.slept = self._clock.slept()
        known.reports.clear()
        now = self._clock.monotonic()
        known.healths = {key: replace(item, expires=min(item.expires, now)) for key, item in known.healths.items()}
        self._merged = self._snapshot = None

    def _merge(self, now: float) -> Merged:
        known = self._known
        known.notice_step(self._clock.wall_ahead(), self._clock.wall())
        merged = merge(
            self._known.current_reports(now),
            known.state,
            now=now,
            wall=self._clock.wall(),
            pending_vendors=frozenset(known.awaited.values()) if now < known.awaited_until else (),
            before=self._merged,
        )
        before, known.state = known.state, merged.state
        known.unreported += merged.events
        self._merged, self._snapshot = merged, None
        self._owned = owned = self._with_steps(self._with_owners(merged))
        if self._accumulator is not None:
            if merged.state.identities is not before.identities:
                for device_id in {one.id for one in before.identities} - {one.id for one in merged.state.identities}:
                    self._accumulator.forget(device_id)
            self._accumulator.moved(merged.events, self._clock.wall())
            self._accumulator.see(owned, known.healths)
            self._accumulator.look_at_links(merged.devices, self._clock.wall())
        if self._attribution is not None:
            self._attribution.see(owned.devices)
        return owned

    def _with_owners(self, merged: Merged) -> Merged:
        if self._attribution is None:
            return merged
        before = self._attribution.owners
        owned = self._attribution.look(merged)
        self._known.has_limits |= self._attribution.owners != before
        if self._known.awaited:  # a claim may name a card that no list has had time to tell of
            return replace(owned, problems=merged.problems)
        self.facts.own[UNRESOLVED] = self._attribution.unresolved()
        return owned

    def _with_steps(self, merged: Merged) -> Merged:
        counts = tuple(one for offered_report in merged.fresh.offered for one in offered_report.report.report.steps)
        if counts and self._steps is None:
            from telemetry_daemon.state.steps import of_node  # only needed if jobs count steps

            self._steps = of_node(self._attribution)
        if self._steps is None:
            return merged
        before, samples = self._steps.counts, self._steps.samples(counts, merged.devices)
        self._known.has_limits |= self._steps.counts != before
        self.facts.own.update(samples)
        return merged if self._known.awaited else replace(merged, problems=(*merged.problems, *self._steps.problems()))

    def _assemble(self, merged: Merged, now: float) -> Snapshot:
        known = self._known
        ends = [merged.valid_until, *(item.expires for item in known.healths.values() if item.expires > now)]
        if now < known.awaited_until and known.awaited:
            ends.append(known.awaited_until)
        devices = self._shown(merged, now)
        if self._accumulator is not None:
            devices = self._accumulator.with_counters(devices)
        if self._attribution is not None:
            devices = self._attribution.with_totals(devices)
        if self._recorded is not None:
            devices = tuple(replace(device, replayed=True) for device in devices)
        maintenance = self.facts.maintenance()
        if maintenance and maintenance.seconds_left is not None:
            ends.append(now + maintenance.seconds_left)
        return Snapshot(
            hostname=self._hostname,
            wall_time=self._clock.wall(),
            monotonic_time=now,
            valid_until=min(ends),
            devices=self.facts.on(devices),
            host=merged.host,
            sources=self._statuses.of(known.bases(merged, now), now),
            own=self.facts.samples(),
            maintenance=maintenance,
            recorded=self._recorded() if self._recorded is not None else None,
        )

    def _shown(self, merged: Merged, now: float) -> tuple[MergedDevice, ...]:
        """Return the devices, and the remembered devices that no source can list or that have open events."""
        merged_ids = {device.id for device in merged.devices}
        missing = [identity for identity in self._known.state.identities if identity.id not in merged_ids]
        if not missing:
            return merged.devices
        codes = self._accumulator.events.codes() if self._accumulator is not None else {}
        last_lists = self._known.last_lists(now)
        unread = [
            (identity, max(filter(None, map(last_lists.get, identity.listed_by)), default=None))
            for identity in missing
            if identity.id in codes or not last_lists.keys().isdisjoint(identity.listed_by)
        ]
        return with_unread(merged.devices, unread)
