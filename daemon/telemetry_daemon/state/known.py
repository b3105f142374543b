"""Everything that the store knows and that changes, and what it took of an attempt."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from telemetry_daemon.state.health import Basis, SourceFacts, expiry, lists_ended
from telemetry_parsers.dataclass import dataclass, field, fields, replace
from telemetry_parsers.merge.memory import MergeState
from telemetry_parsers.merge.merged import Merged
from telemetry_parsers.merge.presence import DeviceEvent, with_losses_moved
from telemetry_parsers.merge.report_columns import Offered
from telemetry_parsers.model import Capture, Health, Metric, Poll, Problem, Report, SourceReport
from telemetry_parsers.states import SUCCESSFUL, is_up

Key = tuple[str, str]
SHORTEST_STEP_SECONDS = 1.0
# A source in another state, such as missing or disabled, is not expected to list devices.
_MAY_HAVE_DEVICES = SUCCESSFUL | {"failed", "stuck", "released"}


@dataclass(slots=True)
class Known:
    """Everything that changes, guarded by the store's lock."""

    state: MergeState
    reports: dict[Key, Offered] = field(default_factory=dict)
    # How many devices of each list were too many.
    refused: dict[Key, int] = field(default_factory=dict)
    healths: dict[Key, Health] = field(default_factory=dict)
    # The counts with which a source goes on after it is removed and added again.
    removed: dict[Key, Health] = field(default_factory=dict)
    cpu_seconds: dict[str, float] = field(default_factory=dict)
    sources: dict[str, SourceFacts] = field(default_factory=dict)
    awaited: dict[Key, str] = field(default_factory=dict)
    awaited_until: float = -math.inf
    # Another object when a plugin brings more: what was made of it holds no longer.
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    unreported: tuple[DeviceEvent, ...] = ()
    # Whether owners or published steps have changed since the last attempt.
    has_limits: bool = False
    slept: float = 0.0
    started_wall: float = 0.0
    # By how much the time of day is ahead of the time since the machine's start.
    wall_ahead: float = 0.0

    def anew(self) -> Known:
        """Return an empty state with the same sources."""
        reset = ("reports", "refused", "healths", "removed", "cpu_seconds", "awaited", "unreported")
        kept = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in (*reset, "state")}
        return Known(MergeState(), **kept)

    def end_waiting(self, now: float) -> bool:
        """Whether the time to wait for first inventories has just run out."""
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
        self.state = replace(self.state, identities=with_losses_moved(self.state.identities, here, step))

    def current_reports(self, now: float) -> list[Offered]:
        """The reports without outdated lists: those older than the end of their source's most frequent list."""
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
        """What a source said in one poll, with when that expires."""
        facts = self.sources.get(source, SourceFacts(source, "", ()))
        return SourceReport(
            source=source,
            poll=poll.name,
            vendor=facts.vendor,
            gives=facts.gives,
            lists_devices=poll.lists_devices,
            # A poll that takes longer than its interval comes only as often as it ends.
            interval=max(interval, capture.seconds),
            taken=capture.monotonic_time,
            expires=expiry(capture.monotonic_time, interval, capture.seconds),
            report=report,
        )

    def bases(self, merged: Merged, now: float) -> Iterator[Basis]:
        """What each source's status is made of, in the order of their names."""
        for source in sorted({name for name, _ in self.healths}):
            facts = self.sources.get(source, SourceFacts(source, "", ()))
            forgotten = sum(count for (_, name), count in self.state.forgotten.items() if name == source)
            yield Basis(
                source,
                facts.vendor,
                [item for key, item in sorted(self.healths.items()) if key[0] == source],
                [one.report for key, one in self.reports.items() if key[0] == source and one.report.expires > now],
                merged.problems_of(source),
                self.cpu_seconds.get(source, 0.0),
                forgotten + sum(count for key, count in self.refused.items() if key[0] == source),
            )


@dataclass(frozen=True, slots=True)
class Taken:
    """What the store accepted of an attempt: the report, events and problems. `needs_counters` requests exact counters for a change of owner or step."""

    report: Report | None = None
    events: tuple[DeviceEvent, ...] = ()
    problems: tuple[Problem, ...] = ()
    needs_counters: bool = False
