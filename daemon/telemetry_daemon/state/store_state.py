"""The mutable state of the store, and the type of an accepted attempt."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from telemetry_daemon.state.health import SourceFacts, StatusInput, expiry_time, unlisted_since_by_source
from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.merge.merge_state import MergeState
from telemetry_parsers.merge.merged import MergedNode
from telemetry_parsers.merge.presence import DeviceEvent, shift_loss_times
from telemetry_parsers.merge.report_columns import CheckedReport
from telemetry_parsers.model import Capture, Health, Metric, Poll, Problem, Report, SourceReport
from telemetry_parsers.states import SUCCESSFUL, is_up

PollKey = tuple[str, str]
MIN_CLOCK_STEP_SECONDS = 1.0
# Sources in other states are not expected to list devices.
_MAY_HAVE_DEVICES = SUCCESSFUL | {"failed", "stuck", "released"}


@dataclass(slots=True)
class StoreState:
    """The mutable state, guarded by the store's lock."""

    merge: MergeState
    reports: dict[PollKey, CheckedReport] = field(default_factory=dict)
    # The number of devices that exceeded the limit in each poll's newest report.
    refused_counts: dict[PollKey, int] = field(default_factory=dict)
    health_by_poll: dict[PollKey, Health] = field(default_factory=dict)
    # If a removed source is added again, its counts continue.
    removed_health_by_poll: dict[PollKey, Health] = field(default_factory=dict)
    cpu_seconds: dict[str, float] = field(default_factory=dict)
    sources: dict[str, SourceFacts] = field(default_factory=dict)
    # Maps the first polls that have not ended to their vendors.
    awaited_polls: dict[PollKey, str] = field(default_factory=dict)
    awaited_until: float = -math.inf
    # A plugin's metrics are added by replacing this object, because caches compare its identity.
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    pending_events: tuple[DeviceEvent, ...] = ()
    # Whether owners or steps have changed, so that the expensive counters must be polled.
    needs_counters: bool = False
    slept: float = 0.0
    start_wall_time: float = 0.0
    # The Unix time of the boot, which changes if the wall clock is set.
    boot_time: float = 0.0

    def without_reports(self) -> StoreState:
        """Return a new state with the same sources but without reports."""
        kept_fields = ["sources", "awaited_until", "metrics", "needs_counters", "slept", "start_wall_time", "boot_time"]
        return StoreState(MergeState(), **{name: getattr(self, name) for name in kept_fields})

    def stop_waiting(self, now: float) -> bool:
        """Stop waiting for first polls after the timeout. Return whether this call did so."""
        if not self.awaited_polls or now < self.awaited_until:
            return False
        self.awaited_polls.clear()
        return True

    def apply_clock_step(self, boot_time: float, wall_time: float) -> None:
        """Shift the loss times of devices if the wall clock was set."""
        step = boot_time - self.boot_time
        if abs(step) < MIN_CLOCK_STEP_SECONDS:
            return
        self.boot_time = boot_time
        runtime = (self.start_wall_time, wall_time - step)
        self.start_wall_time += step
        self.merge = replace(self.merge, identities=shift_loss_times(self.merge.identities, runtime, step))

    def current_reports(self, now: float) -> list[CheckedReport]:
        """Return all reports except outdated device lists."""
        unlisted_since = unlisted_since_by_source(self.health_by_poll.values(), now)
        reports = [(checked, unlisted_since.get(checked.report.source, -math.inf)) for checked in self.reports.values()]
        return [
            checked for checked, since in reports if not checked.report.lists_devices or checked.report.taken >= since
        ]

    def last_listed_by_source(self, now: float) -> dict[str, float | None]:
        """Map each source that cannot list devices now to the Unix time of its last list, or None if unknown."""
        device_list_polls = [
            health
            for health in self.health_by_poll.values()
            if health.lists_devices and health.source in self.sources and health.state in _MAY_HAVE_DEVICES
        ]
        unlisted_sources = unlisted_since_by_source(self.health_by_poll.values(), now).keys()
        working_sources = {
            health.source
            for health in device_list_polls
            if is_up(health, now) and health.state != "released" and health.source not in unlisted_sources
        }
        times: dict[str, float | None] = {}
        for health in device_list_polls:
            if health.source not in working_sources:
                times[health.source] = max(health.last_success or 0.0, times.get(health.source) or 0.0) or None
        return times

    def source_report(self, source: str, poll: Poll, capture: Capture, report: Report, interval: float) -> SourceReport:
        """Return the report with its source, poll and expiry."""
        facts = self.sources.get(source, SourceFacts(source, "", ()))
        return SourceReport(
            source=source,
            poll=poll.name,
            vendor=facts.vendor,
            gives=facts.gives,
            lists_devices=poll.lists_devices,
            # A poll that takes longer than its interval is repeated only after it has ended.
            interval=max(interval, capture.seconds),
            taken=capture.monotonic_time,
            expires=expiry_time(capture.monotonic_time, interval, capture.seconds),
            report=report,
        )

    def status_inputs(self, merged: MergedNode, now: float) -> Iterator[StatusInput]:
        """Yield the data for each source's status, sorted by source name."""
        for source in sorted({name for name, _ in self.health_by_poll}):
            facts = self.sources.get(source, SourceFacts(source, "", ()))
            forgotten_count = sum(count for (_, name), count in self.merge.forgotten_counts.items() if name == source)
            yield StatusInput(
                source,
                facts.vendor,
                [health for key, health in sorted(self.health_by_poll.items()) if key[0] == source],
                [
                    stored.report
                    for key, stored in self.reports.items()
                    if key[0] == source and stored.report.expires > now
                ],
                merged.problems_of(source),
                self.cpu_seconds.get(source, 0.0),
                forgotten_count + sum(count for key, count in self.refused_counts.items() if key[0] == source),
            )


@dataclass(frozen=True, slots=True)
class AcceptedAttempt:
    """The data that the store accepted from one poll."""

    report: Report | None = None
    events: tuple[DeviceEvent, ...] = ()
    problems: tuple[Problem, ...] = ()
    needs_counters: bool = False
