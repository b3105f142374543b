"""The state of each poll and source, derived from captures and reports by pure rules. Unchanged states keep their objects."""

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
from telemetry_parsers.states import NEITHER_UP_NOR_DOWN, OF_ONE_POLL, SUCCESSFUL, is_up

SHORTEST_LIFE_SECONDS = 10.0
LIFE_IN_INTERVALS = 3.0
# These reasons apply to the whole source, whichever poll fails with them.
_ENDS_SOURCE = frozenset({"driver_gone", "library_mismatch"})
# Most frequent first.
_TIERS: tuple[Tier, ...] = ("fast", "slow", "inventory")
# A source whose polls differ has the first of their states in this order.
_WORST_FIRST: tuple[State, ...] = (
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
    """The result of one attempt of a poll."""

    state: State
    reason: Reason | None = None
    detail: str = ""


def judge(capture: Capture, report: Report | None, on_pci_bus: int) -> PollResult:
    """Return the result of an attempt, from its capture and the parser's report."""
    if capture.failure is not None:
        return PollResult(capture.failure.state, capture.failure.reason, capture.failure.text)
    if report is None:
        return PollResult("failed", "internal", "the parser gave no report")
    detail = report.problems[0].text if report.problems else ""
    if report.outcome == "ok":
        return PollResult("ok")
    if report.outcome == "no_devices":
        if on_pci_bus:
            return PollResult("failed", "driver_gone", f"lists no device although {on_pci_bus} are on the PCI bus")
        return PollResult("no_devices", None, detail)
    if report.outcome == "not_mine":
        return PollResult("not_mine", None, detail)
    if report.outcome == "wrong_request":
        return PollResult("not_supported", None, detail or "no known command line works with this version")
    return PollResult("failed", report.reason or "not_understood", detail)


def ends_source(result: PollResult, poll: Poll) -> bool:
    """Return whether an attempt ends all reports of its source: the tool that lists the devices is missing or may not be run."""
    if poll.lists_devices and (result.state == "missing" or result.reason == "no_permission"):
        return True
    return result.reason in _ENDS_SOURCE


def expiry(started: float, interval: float, seconds: float) -> float:
    """Return when a reading taken at `started` becomes too old to show."""
    return started + max(SHORTEST_LIFE_SECONDS, LIFE_IN_INTERVALS * max(interval, seconds))


def attempt(
    source: str, poll: Poll, capture: Capture, result: PollResult, interval: float, previous: Health | None
) -> Health:
    """Return the health of a poll after another attempt."""
    failures = dict(previous.failures) if previous else {}
    reason = result.reason or ("timeout" if result.state == "stuck" else None)
    if result.state in ("failed", "stuck") and reason is not None:
        failures[reason] = failures.get(reason, 0) + 1
    succeeded = result.state in ("ok", "no_devices")
    earlier = previous.last_success if previous and result.state not in OF_ONE_POLL else None
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
        expires=expiry(capture.monotonic_time, interval, capture.seconds),
        seconds=capture.seconds,
        last_success=capture.wall_time if succeeded else earlier,
        fails_since=_fails_since(result.state, capture.monotonic_time, previous),
        failures=tuple(sorted(failures.items())),
        overruns=previous.overruns if previous else 0,
    )


def _fails_since(state: State, started: float, previous: Health | None) -> float | None:
    if state in SUCCESSFUL or state in OF_ONE_POLL or previous is None:
        return None
    return started if previous.state in SUCCESSFUL else previous.fails_since


def lists_ended(healths: Iterable[Health], now: float) -> dict[str, float]:
    """Return the sources whose most frequent list has stopped, and since when. Their less frequent lists are outdated."""
    most_frequent: dict[str, Health] = {}
    for health in healths:
        more_frequent = most_frequent.get(health.source)
        lists = health.lists_devices and health.state not in OF_ONE_POLL
        if lists and (more_frequent is None or _TIERS.index(health.tier) < _TIERS.index(more_frequent.tier)):
            most_frequent[health.source] = health
    ended = {source: _ended(health, now) for source, health in most_frequent.items()}
    return {source: since for source, since in ended.items() if since is not None}


def _ended(health: Health, now: float) -> float | None:
    if health.state in SUCCESSFUL:
        return None if is_up(health, now) else health.expires
    return health.fails_since


def overrun(health: Health) -> Health:
    """Return the health after a poll was due while it was still running."""
    return replace(health, overruns=health.overruns + 1)


def status(
    source: str,
    vendor: str,
    healths: Sequence[Health],
    reports: Iterable[SourceReport],
    merge_problems: Iterable[Problem],
    *,
    cpu_seconds: float,
    now: float,
    refused: int = 0,
) -> SourceStatus:
    """Return a source's state from its attempted polls. At least one poll is required."""
    deciding = _deciding(healths)
    worst = min(deciding, key=lambda health: _WORST_FIRST.index(health.state))
    up = None if worst.state in NEITHER_UP_NOR_DOWN else all(is_up(health, now) for health in deciding)
    fresh_reports = [report.report for report in sorted(reports, key=lambda item: item.poll)]
    problems = (problem for report in fresh_reports for problem in report.problems)
    return SourceStatus(
        source=source,
        vendor=vendor,
        state=worst.state,
        reason=worst.reason,
        detail=worst.detail,
        up=up,
        version={key: value for report in fresh_reports for key, value in report.facts}.get("tool_version"),
        problems=_distinct((*_failure_problem(worst), *problems, *merge_problems)),
        unknown_fields=tuple(sorted({field for report in fresh_reports for field in report.unknown_fields})),
        polls=tuple(healths),
        cpu_seconds=cpu_seconds,
        refused=refused,
    )


def _deciding(healths: Sequence[Health]) -> Sequence[Health]:
    """Return the polls that decide the source's state. A source that cannot list its devices has failed."""
    listing = [health for health in healths if health.lists_devices]
    if listing and all(health.state == "not_supported" for health in listing):
        return [replace(health, state="failed", reason="not_understood") for health in listing]
    answering = [health for health in healths if health.state not in OF_ONE_POLL]
    return [health for health in answering if health.lists_devices or health.tier == "fast"] or answering or healths


def _distinct(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return the problems without duplicates, up to the limit. Each poll may report the same lost card."""
    distinct = tuple(dict.fromkeys(problems))
    if len(distinct) <= bounds.MOST_PROBLEMS:
        return tuple(map(cut_problem, distinct))
    more = Problem(TOO_MUCH, f"and {len(distinct) - bounds.MOST_PROBLEMS} more problems")
    return (*map(cut_problem, distinct[: bounds.MOST_PROBLEMS]), more)


def _failure_problem(health: Health) -> tuple[Problem, ...]:
    """Return the problem of a failed poll in the source's own words. A missing tool is no problem."""
    if health.state in ("failed", "stuck") and health.detail:
        return (Problem(health.poll, health.detail),)
    return ()


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """The facts about a source that the store needs. A source that lists no devices is polled for its vendor's devices."""

    source: str
    vendor: str
    gives: tuple[str, ...]
    lists_devices: bool = True

    @classmethod
    def of(cls, parser: Parser) -> SourceFacts:
        """Return the facts that a parser declares."""
        lists = any(poll.lists_devices for poll in parser.polls)
        return cls(parser.name, parser.vendor, parser.gives, lists)


@dataclass(frozen=True, slots=True)
class Basis:
    """The input of a source's status: the health and fresh reports of its polls, and the problems of the merge."""

    source: str
    vendor: str
    healths: Sequence[Health]
    reports: Sequence[SourceReport]
    problems: Sequence[Problem]
    cpu_seconds: float
    refused: int


class Statuses:
    """Caches the newest status of each source."""

    def __init__(self) -> None:
        self._kept: Mapping[str, tuple[Basis, tuple[bool, ...], SourceStatus]] = {}

    def of(self, bases: Iterable[Basis], now: float) -> tuple[SourceStatus, ...]:
        """Return the status of each source, the same object as before if nothing changed."""
        self._kept = {basis.source: self._status(basis, now) for basis in bases}
        return tuple(status for _, _, status in self._kept.values())

    def _status(self, basis: Basis, now: float) -> tuple[Basis, tuple[bool, ...], SourceStatus]:
        # A poll that was up is down as soon as its report has expired, even if nothing else happens.
        ups = tuple([is_up(item, now) for item in basis.healths])
        kept = self._kept.get(basis.source)
        if kept is not None and kept[0] == basis and kept[1] == ups:
            return kept
        made = status(
            basis.source,
            basis.vendor,
            basis.healths,
            basis.reports,
            basis.problems,
            cpu_seconds=basis.cpu_seconds,
            now=now,
            refused=basis.refused,
        )
        return basis, ups, made
