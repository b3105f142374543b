"""The store keeps the newest report of each poll, and merges the reports into a snapshot."""

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
from telemetry_daemon.state.health import PollResult, SourceFacts, StatusCache
from telemetry_daemon.state.node_facts import NodeFacts
from telemetry_daemon.state.store_state import AcceptedAttempt, PollKey, StoreState
from telemetry_daemon.times import MIN_SLEEP_SECONDS, Clock
from telemetry_parsers import bounds
from telemetry_parsers.merge.admission import admit, cut_text
from telemetry_parsers.merge.merge_state import MergeState
from telemetry_parsers.merge.merged import MergedNode, include_unread, merge
from telemetry_parsers.merge.report_columns import check_report
from telemetry_parsers.model import Capture, Health, Identity, MergedDevice, Metric, Poll, Report, Snapshot
from telemetry_parsers.replay_info import ReplayInfo

if TYPE_CHECKING:  # imported only if attribution is on
    from telemetry_daemon.state.attribution import Attribution
    from telemetry_daemon.state.steps import StepMetrics

FIRST_INVENTORY_SECONDS = 15.0
UNRESOLVED_METRIC = "telemetry_claims_unresolved"


class Store:
    """Accepts results of polls and returns snapshots. Thread-safe."""

    def __init__(
        self,
        hostname: str,
        clock: Clock,
        identities: tuple[Identity, ...] = (),
        accumulator: Accumulator | None = None,
        replay_info: Callable[[], ReplayInfo] | None = None,
        attribution: Attribution | None = None,
    ) -> None:
        self._hostname = hostname if replay_info is None else replay_info().hostname
        self._replay_info = replay_info
        self._clock = clock
        self._lock = threading.RLock()
        self.facts = NodeFacts(self._lock, self._drop_snapshot)
        merge_state = MergeState(identities=identities)
        self._state = StoreState(merge_state, slept=clock.suspended_seconds(), start_wall_time=clock.wall())
        self._state.boot_time = self._clock.boot_time()
        self._accumulator = accumulator
        self._attribution = attribution
        self._steps: StepMetrics | None = None
        self._statuses = StatusCache()
        self._merged: MergedNode | None = None
        self._merged_with_owners: MergedNode | None = None  # `_merged` with owners and steps
        self._snapshot: Snapshot | None = None
        self._frozen: Snapshot | None = None  # returned while a replay jumps to another position
        self._on_change: Callable[[], None] = lambda: None

    def reset(self) -> None:
        """Drop all reports, because the replay jumps to another position."""
        with self._lock:
            self._state = self._state.without_reports()
            self._state.boot_time = self._clock.boot_time()
            if self._accumulator is not None:
                self._accumulator = self._accumulator.reset()
            self._merged = self._merged_with_owners = self._snapshot = None

    def refresh_replay_info(self) -> None:
        """Update the snapshot, because the state of the replay has changed."""
        with self._lock:
            self._snapshot = None
            if self._frozen is not None and self._frozen.recorded is not None and self._replay_info is not None:
                recorded = replace(self._replay_info(), shown_time=self._frozen.recorded.shown_time)
                self._frozen = replace(self._frozen, recorded=recorded)
        self._on_change()

    @contextlib.contextmanager
    def frozen_view(self) -> Iterator[None]:
        """Let `snapshot` return the same snapshot until the `with` block ends."""
        with self._lock:
            self._snapshot = None
            self._frozen = self.current_snapshot()
        try:
            yield
        finally:
            with self._lock:
                self._frozen = None

    def add_source(self, facts: SourceFacts, metrics: tuple[Metric, ...] = ()) -> None:
        """Add a source and its own metrics. Call this before its first report."""
        with self._lock:
            self._state.sources[facts.source] = facts
            self._state.metrics = {**self._state.metrics, **{metric.key: metric for metric in metrics}}

    def remove_source(self, source: str) -> None:
        """Drop a source with all its reports."""
        with self._lock:
            state = self._state
            for key in [key for key in state.health_by_poll if key[0] == source]:
                state.removed_health_by_poll[key] = state.health_by_poll.pop(key)
                state.reports.pop(key, None)
                state.refused_counts.pop(key, None)
                state.awaited_polls.pop(key, None)
            state.sources.pop(source, None)
            if self._accumulator is not None:
                self._accumulator.events.remove_source(source)
            self._merged = self._snapshot = None

    def await_inventories(self, vendors_by_poll: Mapping[PollKey, str]) -> None:
        """Hide each vendor's new devices until its first polls have ended, but for 15 s at most."""
        with self._lock:
            self._state.awaited_polls = dict(vendors_by_poll)
            self._state.awaited_until = self._clock.monotonic() + FIRST_INVENTORY_SECONDS

    def set_change_callback(self, callback: Callable[[], None]) -> None:
        """Set a function to call after each accepted poll result."""
        self._on_change = callback

    def put(
        self, source: str, poll: Poll, capture: Capture, report: Report | None, result: PollResult, interval: float
    ) -> AcceptedAttempt:
        """Store the result of a poll."""
        accepted = self._accept(source, poll, capture, report, result, interval)
        self._on_change()
        return accepted

    def _accept(
        self, source: str, poll: Poll, capture: Capture, report: Report | None, result: PollResult, interval: float
    ) -> AcceptedAttempt:
        key = (source, poll.name)
        with self._lock:
            self._drop_reports_after_sleep()
            state = self._state
            if source not in state.sources:
                return AcceptedAttempt()
            admitted = admit(report or Report(), state.merge.identities)
            report = admitted.report if report is not None else None
            result = replace(result, detail=cut_text(result.detail, bounds.MAX_TEXT_LENGTH))
            previous_health = state.health_by_poll.get(key) or state.removed_health_by_poll.get(key)
            state.health_by_poll[key] = health.health_after(source, poll, capture, result, interval, previous_health)
            state.cpu_seconds[source] = state.cpu_seconds.get(source, 0.0) + capture.cpu_seconds
            was_awaited, previous_reports = state.awaited_polls.pop(key, None) is not None, dict(state.reports)
            previous_report = state.reports.pop(key, None)
            if health.is_source_gone(result, poll):
                state.reports = {other: stored for other, stored in state.reports.items() if other[0] != source}
            state.refused_counts[key] = admitted.dropped_devices
            if report is not None and result.state in ("ok", "no_devices"):
                source_report = state.source_report(source, poll, capture, report, interval)
                state.reports[key] = check_report(source_report, state.metrics, previous_report)
            elif previous_report is not None and previous_report.report.report.claims:
                state.reports[key] = previous_report  # claims remain until they expire, even if the kubelet restarts
            is_reusable = (
                previous_reports == state.reports
                and not was_awaited
                and previous_health is not None
                and (previous_health.state, previous_health.reason) == (result.state, result.reason)
            )
            merged = self._merge_or_reuse(is_reusable=is_reusable)
            if report is not None and self._accumulator is not None:
                ids = merged.device_ids.get(key, ())
                self._accumulator.add_events(key, ids, report.events, capture.wall_time)
            events, state.pending_events = state.pending_events, ()
            needs_counters, state.needs_counters = state.needs_counters, False
            problems = admitted.report.problems if result.state == "ok" else ()
            return AcceptedAttempt(report, events, (*problems, *merged.problems_of(source)), needs_counters)

    def count_overrun(self, key: PollKey) -> None:
        """Count a poll that was due again while it was still running."""
        with self._lock:
            if key in self._state.health_by_poll:
                self._state.health_by_poll[key] = health.with_overrun(self._state.health_by_poll[key])
                self._snapshot = None

    def snapshot(self) -> Snapshot:
        """Return the current snapshot, which is the same object until something changes."""
        return self._frozen or self.current_snapshot()

    def current_snapshot(self) -> Snapshot:
        """Return the newest snapshot, even during `frozen_view`."""
        cached = self._valid_snapshot()  # without the lock, so that scrapes do not wait for `put`
        if cached is not None:
            return cached
        with self._lock:
            self._drop_reports_after_sleep()
            cached = self._valid_snapshot()
            if cached is not None:
                return cached
            now, merged = self._clock.monotonic(), self._merged_with_owners
            if self._merged is None or merged is None or merged.valid_until <= now or self._state.stop_waiting(now):
                merged = self._merge(now)
            self._snapshot = self._build_snapshot(merged, now)
            return self._snapshot

    def _valid_snapshot(self) -> Snapshot | None:
        cached = self._snapshot
        is_valid = cached is not None and self._clock.monotonic() < cached.valid_until and not self._has_slept()
        return cached if is_valid else None

    def readiness(self) -> tuple[bool, str]:
        """Return whether the wait for the first polls is over, and a status message."""
        with self._lock:
            awaited_sources = sorted({source for source, _ in self._state.awaited_polls})
            if not awaited_sources or self._clock.monotonic() >= self._state.awaited_until:
                return True, "ready"
            return False, "waiting for the first poll of " + ", ".join(awaited_sources)

    def targets(self, source: str) -> Targets:
        """Return the devices and processes for the source's next poll."""
        with self._lock:
            facts = self._state.sources.get(source, SourceFacts(source, "", ()))
            reports = [checked.report for checked in self._state.reports.values()]
        relevant_reports = [report for report in reports if report.source == source or not facts.lists_devices]
        targets = Targets.from_reports(
            [report for report in relevant_reports if report.lists_devices and facts.vendor in ("", report.vendor)]
        )
        if facts.vendor:
            return targets
        return replace(
            targets, pids=tuple(dict.fromkeys(process.pid for report in reports for process in report.report.processes))
        )

    def health_of(self, key: PollKey) -> Health | None:
        """Return the health of a poll, or None before its first attempt."""
        with self._lock:
            self._drop_reports_after_sleep()
            return self._state.health_by_poll.get(key)

    def identities(self) -> tuple[Identity, ...]:
        """Return the identities of the recorded devices, which are stored across restarts."""
        with self._lock:
            return self._state.merge.identities

    def open_events(self) -> tuple[OpenEvents, ...]:
        """Return the open events, which are stored across restarts."""
        with self._lock:
            return self._accumulator.events.open_events() if self._accumulator is not None else ()

    def close_events(self, device_id: str) -> tuple[str, ...]:
        """Close a device's open events and return their codes."""
        with self._lock:
            self._snapshot = None
            return self._accumulator.close_events(device_id) if self._accumulator is not None else ()

    def lost_ids(self) -> tuple[str, ...]:
        """Return the ids of the lost devices."""
        return tuple(identity.id for identity in self.identities() if identity.lost_since is not None)

    def lock(self) -> threading.RLock:
        """Return the lock that guards the state."""
        return self._lock

    def forget(self, is_chosen: Callable[[Identity], bool]) -> tuple[str, ...]:
        """Forget the lost devices that `is_chosen` accepts, and return their ids."""
        with self._lock:
            merge_state = self._state.merge
            lost_devices = (identity for identity in merge_state.identities if identity.lost_since is not None)
            forgotten = tuple(identity.id for identity in lost_devices if is_chosen(identity))
            if forgotten:
                kept = tuple(identity for identity in merge_state.identities if identity.id not in frozenset(forgotten))
                self._state.merge = replace(merge_state, identities=kept, forgotten_counts={})
                self._merged = self._snapshot = None
            if self._accumulator is not None:
                for device_id in forgotten:
                    self._accumulator.forget(device_id)
            return forgotten

    def _drop_snapshot(self) -> None:
        self._snapshot = None

    def _has_slept(self) -> bool:
        return self._clock.suspended_seconds() - self._state.slept >= MIN_SLEEP_SECONDS

    def _drop_reports_after_sleep(self) -> None:
        if not self._has_slept():
            return
        state = self._state
        state.slept = self._clock.suspended_seconds()
        state.reports.clear()
        now = self._clock.monotonic()
        state.health_by_poll = {
            key: replace(item, expires=min(item.expires, now)) for key, item in state.health_by_poll.items()
        }
        self._merged = self._snapshot = None

    def _merge_or_reuse(self, *, is_reusable: bool) -> MergedNode:
        if not is_reusable or self._merged is None or self._merged_with_owners is None:
            return self._merge(self._clock.monotonic())
        self._snapshot = None
        return self._merged_with_owners

    def _merge(self, now: float) -> MergedNode:
        state = self._state
        state.apply_clock_step(self._clock.boot_time(), self._clock.wall())
        merged = merge(
            self._state.current_reports(now),
            state.merge,
            now=now,
            wall_time=self._clock.wall(),
            pending_vendors=frozenset(state.awaited_polls.values()) if now < state.awaited_until else (),
            previous=self._merged,
        )
        previous, state.merge = state.merge, merged.state
        state.pending_events += merged.events
        self._merged, self._snapshot = merged, None
        self._merged_with_owners = owned = self._with_steps(self._with_owners(merged))
        if self._accumulator is not None:
            if merged.state.identities is not previous.identities:
                for device_id in {identity.id for identity in previous.identities} - {
                    identity.id for identity in merged.state.identities
                }:
                    self._accumulator.forget(device_id)
            self._accumulator.record_presence(merged.events, self._clock.wall())
            self._accumulator.update(owned, state.health_by_poll)
            self._accumulator.check_links(merged.devices, self._clock.wall())
        if self._attribution is not None:
            self._attribution.update_ledger(owned.devices)
        return owned

    def _with_owners(self, merged: MergedNode) -> MergedNode:
        if self._attribution is None:
            return merged
        previous = self._attribution.owners
        owned = self._attribution.with_owners(merged)
        self._state.needs_counters |= self._attribution.owners != previous
        if self._may_be_incomplete(merged):
            return replace(owned, problems=merged.problems)
        self.facts.daemon_samples[UNRESOLVED_METRIC] = self._attribution.unresolved_counts()
        return owned

    def _with_steps(self, merged: MergedNode) -> MergedNode:
        counts = tuple(count for checked in merged.fresh.reports for count in checked.report.report.steps)
        if counts and self._steps is None:
            from telemetry_daemon.state.steps import create_step_metrics  # needed only if jobs count steps

            self._steps = create_step_metrics(self._attribution)
        if self._steps is None:
            return merged
        previous, samples = self._steps.counts, self._steps.samples(counts, merged.devices)
        self._state.needs_counters |= self._steps.counts != previous
        self.facts.daemon_samples.update(samples)
        if self._may_be_incomplete(merged):
            return merged
        return replace(merged, problems=(*merged.problems, *self._steps.problems()))

    def _may_be_incomplete(self, merged: MergedNode) -> bool:
        """Return whether devices may be missing, because first polls are awaited or a source cannot list devices."""
        listed_ids = {device.id for device in merged.devices}
        missing_devices = (identity for identity in self._state.merge.identities if identity.id not in listed_ids)
        missing_device_sources = {source for identity in missing_devices for source in identity.listed_by}
        failing_sources = self._state.last_listed_by_source(self._clock.monotonic()) if missing_device_sources else {}
        return bool(self._state.awaited_polls) or not missing_device_sources.isdisjoint(failing_sources)

    def _build_snapshot(self, merged: MergedNode, now: float) -> Snapshot:
        state = self._state
        expiries = [merged.valid_until, *(item.expires for item in state.health_by_poll.values() if item.expires > now)]
        if now < state.awaited_until and state.awaited_polls:
            expiries.append(state.awaited_until)
        devices = self._shown_devices(merged, now)
        if self._accumulator is not None:
            devices = self._accumulator.with_counters(devices)
        if self._attribution is not None:
            devices = self._attribution.with_totals(devices)
        if self._replay_info is not None:
            devices = tuple(replace(device, replayed=True) for device in devices)
        maintenance = self.facts.maintenance()
        if maintenance and maintenance.seconds_left is not None:
            expiries.append(now + maintenance.seconds_left)
        return Snapshot(
            hostname=self._hostname,
            wall_time=self._clock.wall(),
            monotonic_time=now,
            valid_until=min(expiries),
            devices=self.facts.with_ranks_and_peaks(devices),
            host=merged.host,
            sources=self._statuses.update(state.status_inputs(merged, now), now),
            daemon_samples=self.facts.samples(),
            maintenance=maintenance,
            recorded=self._replay_info() if self._replay_info is not None else None,
        )

    def _shown_devices(self, merged: MergedNode, now: float) -> tuple[MergedDevice, ...]:
        """Return the merged devices, and missing devices with open events or a source that cannot list devices."""
        merged_ids = {device.id for device in merged.devices}
        missing_devices = [identity for identity in self._state.merge.identities if identity.id not in merged_ids]
        if not missing_devices:
            return merged.devices
        codes = self._accumulator.events.open_codes() if self._accumulator is not None else {}
        last_listed = self._state.last_listed_by_source(now)
        unlisted_devices = [
            (identity, max(filter(None, map(last_listed.get, identity.listed_by)), default=None))
            for identity in missing_devices
            if identity.id in codes or not last_listed.keys().isdisjoint(identity.listed_by)
        ]
        return include_unread(merged.devices, unlisted_devices)
