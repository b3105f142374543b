"""Derives the state of each poll and source from captures and reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from telemetry_parsers import bounds
from telemetry_parsers.contract import Parser
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.merge.admission import TOO_MUCH, cut_problem
from telemetry_parsers.model import (
    Capture,
    Health,
    Poll,
    Problem,
    Reason,
    Report,
    SourceReport,
    SourceStatus,
    State,
    Tier,
)
from telemetry_parsers.states import NEITHER_UP_NOR_DOWN, OF_ALL_POLLS, SUCCESSFUL, is_up

MIN_LIFETIME_SECONDS = 10.0
LIFETIME_INTERVALS = 3.0
# If a poll fails with one of these reasons, the whole source has failed.
_SOURCE_WIDE_REASONS = frozenset({"driver_gone", "library_mismatch"})
# The tiers, from the most to the least frequently polled.
_TIERS: tuple[Tier, ...] = ("fast", "slow", "inventory")
# A source has the most severe state of its deciding polls. The most severe state comes first.
_STATES_BY_SEVERITY: tuple[State, ...] = (
    "stuck",
    "failed",
    "missing",
    "not_mine",
    "not_supported",
    "disabled",
    "released",
    "suspended",
    "no_devices",
    "ok",
)


@dataclass(frozen=True, slots=True)
class PollResult:
    """The result of one attempt to run a poll."""

    state: State
    reason: Reason | None = None
    detail: str = ""


def result_of(capture: Capture, report: Report | None, pci_count: int) -> PollResult:
    """Derive a poll's result from its capture and report. `pci_count` is the number of the vendor's PCI devices."""
    if capture.failure is not None:
        return PollResult(capture.failure.state, capture.failure.reason, capture.failure.text)
    if report is None:
        return PollResult("failed", "internal", "the parser returned no report")
    detail = report.problems[0].text if report.problems else ""
    if report.outcome == "ok":
        return PollResult("ok")
    if report.outcome == "no_devices":
        if pci_count:
            return PollResult("failed", "driver_gone", f"lists no devices, although {pci_count} are on the PCI bus")
        return PollResult("no_devices", None, detail)
    if report.outcome == "not_mine":
        return PollResult("not_mine", None, detail)
    if report.outcome == "wrong_request":
        return PollResult("not_supported", None, detail or "no known command line works with this version")
    return PollResult("failed", report.reason or "not_understood", detail)


def is_source_gone(result: PollResult, poll: Poll) -> bool:
    """Return whether this result means that the source has failed for all its polls."""
    if poll.lists_devices and (result.state == "missing" or result.reason == "no_permission"):
        return True
    return result.reason in _SOURCE_WIDE_REASONS


def expiry_time(started: float, interval: float, poll_seconds: float) -> float:
    """Return the time at which a reading that was taken at `started` expires."""
    return started + max(MIN_LIFETIME_SECONDS, LIFETIME_INTERVALS * max(interval, poll_seconds))


def health_after(
    source: str, poll: Poll, capture: Capture, result: PollResult, interval: float, previous: Health | None
) -> Health:
    """Return a poll's health after this attempt."""
    failures = dict(previous.failures) if previous else {}
    reason = result.reason or ("timeout" if result.state == "stuck" else None)
    if result.state in ("failed", "stuck") and reason is not None:
        failures[reason] = failures.get(reason, 0) + 1
    succeeded = result.state in ("ok", "no_devices")
    previous_success = previous.last_success if previous and result.state not in OF_ALL_POLLS else None
    return Health(
        source=source,
        poll=poll.name,
        tier=poll.tier,
        lists_devices=poll.lists_devices,
        state=result.state,
        reason=result.reason,
        detail=result.detail,
        attempted=capture.wall_time,
        attempted_monotonic=capture.monotonic_time,
        expires=expiry_time(capture.monotonic_time, interval, capture.seconds),
        seconds=capture.seconds,
        last_success=capture.wall_time if succeeded else previous_success,
        fails_since=_fails_since(result.state, capture.monotonic_time, previous),
        failures=tuple(sorted(failures.items())),
        overruns=previous.overruns if previous else 0,
    )


def _fails_since(state: State, started: float, previous: Health | None) -> float | None:
    if state in SUCCESSFUL or state in OF_ALL_POLLS or previous is None:
        return None
    return started if previous.state in SUCCESSFUL else previous.fails_since


def unlisted_since_by_source(polls: Iterable[Health], now: float) -> dict[str, float]:
    """Map each source whose device list is invalid to the monotonic time since which it is invalid."""
    most_frequent: dict[str, Health] = {}
    for health in polls:
        previous = most_frequent.get(health.source)
        is_device_list = health.lists_devices and health.state not in OF_ALL_POLLS
        if is_device_list and (previous is None or _TIERS.index(health.tier) < _TIERS.index(previous.tier)):
            most_frequent[health.source] = health
    unlisted_since = {source: _unlisted_since(health, now) for source, health in most_frequent.items()}
    return {source: since for source, since in unlisted_since.items() if since is not None}


def _unlisted_since(health: Health, now: float) -> float | None:
    if health.state in SUCCESSFUL:
        return None if is_up(health, now) else health.expires
    return health.fails_since


def with_overrun(health: Health) -> Health:
    """Return the health with one more overrun: the poll was due while it was still running."""
    return replace(health, overruns=health.overruns + 1)


def source_status(
    source: str,
    vendor: str,
    polls: Sequence[Health],
    reports: Iterable[SourceReport],
    merge_problems: Iterable[Problem],
    *,
    cpu_seconds: float,
    now: float,
    refused: int = 0,
) -> SourceStatus:
    """Return a source's status. The source must have at least one poll."""
    deciding_polls = _deciding_polls(polls)
    worst_poll = min(deciding_polls, key=lambda health: _STATES_BY_SEVERITY.index(health.state))
    up = None if worst_poll.state in NEITHER_UP_NOR_DOWN else all(is_up(health, now) for health in deciding_polls)
    fresh_reports = [report.report for report in sorted(reports, key=lambda report: report.poll)]
    problems = (problem for report in fresh_reports for problem in report.problems)
    return SourceStatus(
        source=source,
        vendor=vendor,
        state=worst_poll.state,
        reason=worst_poll.reason,
        detail=worst_poll.detail,
        up=up,
        version={key: value for report in fresh_reports for key, value in report.facts}.get("tool_version"),
        problems=_distinct_problems((*_failure_problems(worst_poll), *problems, *merge_problems)),
        unknown_fields=tuple(sorted({field for report in fresh_reports for field in report.unknown_fields})),
        polls=tuple(polls),
        cpu_seconds=cpu_seconds,
        refused=refused,
    )


def _deciding_polls(polls: Sequence[Health]) -> Sequence[Health]:
    list_polls = [health for health in polls if health.lists_devices]
    if list_polls and all(health.state == "not_supported" for health in list_polls):
        return [replace(health, state="failed", reason="not_understood") for health in list_polls]
    attempted = [health for health in polls if health.state not in OF_ALL_POLLS]
    return [health for health in attempted if health.lists_devices or health.tier == "fast"] or attempted or polls


def _distinct_problems(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    distinct_problems = tuple(dict.fromkeys(problems))
    if len(distinct_problems) <= bounds.MAX_PROBLEMS:
        return tuple(map(cut_problem, distinct_problems))
    omitted = Problem(TOO_MUCH, f"and {len(distinct_problems) - bounds.MAX_PROBLEMS} more problems")
    return (*map(cut_problem, distinct_problems[: bounds.MAX_PROBLEMS]), omitted)


def _failure_problems(health: Health) -> tuple[Problem, ...]:
    if health.state in ("failed", "stuck") and health.detail:
        return (Problem(health.poll, health.detail),)
    return ()


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """Facts about a source. `gives` contains the keys of its metrics."""

    source: str
    vendor: str
    gives: tuple[str, ...]
    lists_devices: bool = True

    @classmethod
    def from_parser(cls, parser: Parser) -> SourceFacts:
        """Return the facts about a parser's source."""
        lists_devices = any(poll.lists_devices for poll in parser.polls)
        return cls(parser.name, parser.vendor, parser.gives, lists_devices)


@dataclass(frozen=True, slots=True)
class StatusInput:
    """The data from which a source's status is derived."""

    source: str
    vendor: str
    polls: Sequence[Health]
    reports: Sequence[SourceReport]
    problems: Sequence[Problem]
    cpu_seconds: float
    refused: int


class StatusCache:
    """Caches the status of each source."""

    def __init__(self) -> None:
        self._cache: Mapping[str, tuple[StatusInput, tuple[bool, ...], SourceStatus]] = {}

    def update(self, inputs: Iterable[StatusInput], now: float) -> tuple[SourceStatus, ...]:
        """Return the status of each source. An unchanged status is the same object as before."""
        self._cache = {status_input.source: self._status(status_input, now) for status_input in inputs}
        return tuple(status for _, _, status in self._cache.values())

    def _status(self, status_input: StatusInput, now: float) -> tuple[StatusInput, tuple[bool, ...], SourceStatus]:
        # Whether a poll is up also depends on the time, because its report expires.
        are_up = tuple([is_up(health, now) for health in status_input.polls])
        cached = self._cache.get(status_input.source)
        if cached is not None and cached[0] == status_input and cached[1] == are_up:
            return cached
        status = source_status(
            status_input.source,
            status_input.vendor,
            status_input.polls,
            status_input.reports,
            status_input.problems,
            cpu_seconds=status_input.cpu_seconds,
            now=now,
            refused=status_input.refused,
        )
        return status_input, are_up, status
