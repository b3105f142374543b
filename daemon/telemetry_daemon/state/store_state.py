"""The mutable state of the store, and what the store accepted of an attempt."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from telemetry_daemon.state.health import Basis, SourceFacts, expiry, lists_ended
from telemetry_parsers.dataclass import dataclass, field, fields, replace
from telemetry_parsers.merge.memory import MergeState
from telemetry_parsers.merge.merged import Merged
from telemetry_parsers.merge.presence import DeviceEvent, shift_losses
from telemetry_parsers.merge.report_columns import CheckedReport
from telemetry_parsers.model import Capture, Health, Metric, Poll, Problem, Report, SourceReport
from telemetry_parsers.states import SUCCESSFUL, is_up

Key = tuple[str, str]
SHORTEST_STEP_SECONDS = 1.0
# A source in another state, such as missing or disabled, is not expected to list devices.
_MAY_HAVE_DEVICES = SUCCESSFUL | {"failed", "stuck", "released"}


@dataclass(slots=True)
class StoreState:
    """The mutable state, guarded by the store's lock."""

    merge: MergeState
    reports: dict[Key, CheckedReport] = field(default_factory=dict)
    # How many devices of each list exceeded the limit.
    refused: dict[Key, int] = field(default_factory=dict)
    healths: dict[Key, Health] = field(default_factory=dict)
    # Counts of removed sources, with which a source continues when it is added again.
    removed: dict[Key, Health] = field(default_factory=dict)
    cpu_seconds: dict[str, float] = field(default_factory=dict)
    sources: dict[str, SourceFacts] = field(default_factory=dict)
    awaited: dict[Key, str] = field(default_factory=dict)
    awaited_until: float = -math.inf
    # Replaced when a plugin adds metrics, so that plans made from the old object become invalid.
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    unreported: tuple[DeviceEvent, ...] = ()
    # Whether owners or published steps have changed since the last attempt.
    has_limits: bool = False
    slept: float = 0.0
    started_wall: float = 0.0
    # By how much the wall clock is ahead of the time since boot.
    wall_ahead: float = 0.0

    def reset(self) -> StoreState:
        """Return an empty state with the same sources."""
        reset = ("reports", "refused", "healths", "removed", "cpu_seconds", "awaited", "unreported")
        kept = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in (*reset, "merge")}
        return StoreState(MergeState(), **kept)

    def end_waiting(self, now: float) -> bool:
        """Return whether the time to wait for first inventories has just ended."""
        if not self.awaited or now < self.awaited_until:
            return False
        self.awaited.clear()
        return True

    def notice_step(self, ahead: float, wall: float) -> None:
        """After the time of day was set, move the times of devices lost in this process by the same step."""
        step = ahead - self.wall_ahead
        if abs(step) < SHORTEST_STEP_SECONDS:
            return
        self.wall_ahead = ahead
        here = (self.started_wall, wall - step)
        self.started_wall += step
        self.merge = replace(self.merge, identities=shift_losses(self.merge.identities, here, step))

    def current_reports(self, now: float) -> list[CheckedReport]:
        """Return the reports without outdated lists, which are older than the end of their source's most frequent list."""
        ended = lists_ended(self.healths.values(), now)
        reports = ((offer, offer.report) for offer in self.reports.values())
        return [offer for offer, of in reports if not (of.lists_devices and of.taken < ended.get(of.source, -math.inf))]

    def last_lists(self, now: float) -> dict[str, float | None]:
        """Return the Unix time of the last list of each source that may still have devices but lists none now."""
        lists = [
            health
            for health in self.healths.values()
            if health.lists_devices and health.source in self.sources and health.state in _MAY_HAVE_DEVICES
        ]
        ended = lists_ended(self.healths.values(), now)
        listing = {
            health.source
            for health in lists
            if is_up(health, now) and health.state != "released" and health.source not in ended
        }
        times: dict[str, float | None] = {}
        for health in lists:
            if health.source not in listing:
                times[health.source] = max(health.last_success or 0.0, times.get(health.source) or 0.0) or None
        return times

    def source_report(self, source: str, poll: Poll, capture: Capture, report: Report, interval: float) -> SourceReport:
        """Return the report of one poll with its expiry."""
        facts = self.sources.get(source, SourceFacts(source, "", ()))
        return SourceReport(
            source=source,
            poll=poll.name,
            vendor=facts.vendor,
            gives=facts.gives,
            lists_devices=poll.lists_devices,
            # A poll that takes longer than its interval repeats only after it ends.
            interval=max(interval, capture.seconds),
            taken=capture.monotonic_time,
            expires=expiry(capture.monotonic_time, interval, capture.seconds),
            report=report,
        )

    def bases(self, merged: Merged, now: float) -> Iterator[Basis]:
        """Yield the input of each source's status, sorted by name."""
        for source in sorted({name for name, _ in self.healths}):
            facts = self.sources.get(source, SourceFacts(source, "", ()))
            forgotten = sum(count for (_, name), count in self.merge.forgotten.items() if name == source)
            yield Basis(
                source,
                facts.vendor,
                [item for key, item in sorted(self.healths.items()) if key[0] == source],
                [
                    stored.report
                    for key, stored in self.reports.items()
                    if key[0] == source and stored.report.expires > now
                ],
                merged.problems_of(source),
                self.cpu_seconds.get(source, 0.0),
                forgotten + sum(count for key, count in self.refused.items() if key[0] == source),
            )


@dataclass(frozen=True, slots=True)
class Accepted:
    """What the store accepted of an attempt: the report, events and problems. `needs_counters` requests exact counters for a change of owner or step."""

    report: Report | None = None
    events: tuple[DeviceEvent, ...] = ()
    problems: tuple[Problem, ...] = ()
    needs_counters: bool = False
