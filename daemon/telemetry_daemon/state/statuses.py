"""The status of each source, made anew when something that it is made of is new."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from telemetry_daemon.state import health
from telemetry_parsers.model import Health, Problem, SourceReport, SourceStatus
from telemetry_parsers.states import is_up


@dataclass(frozen=True, slots=True)
class Basis:
    """What a source's status is made of: its polls' health and fresh reports, and what merge found."""

    source: str
    vendor: str
    healths: Sequence[Health]
    reports: Sequence[SourceReport]
    problems: Sequence[Problem]
    cpu_seconds: float
    refused: int


class Statuses:
    """Keeps the newest status of each source."""

    def __init__(self) -> None:
        self._kept: Mapping[str, tuple[Basis, tuple[bool, ...], SourceStatus]] = {}

    def of(self, bases: Iterable[Basis], now: float) -> tuple[SourceStatus, ...]:
        """The status of each source; the same object as before if nothing of it is new."""
        self._kept = {basis.source: self._status(basis, now) for basis in bases}
        return tuple(status for _, _, status in self._kept.values())

    def _status(self, basis: Basis, now: float) -> tuple[Basis, tuple[bool, ...], SourceStatus]:
        # A poll that was up is down as soon as its answer has expired, whether or not anything else happens.
        ups = tuple([is_up(item, now) for item in basis.healths])
        kept = self._kept.get(basis.source)
        if kept is not None and kept[0] == basis and kept[1] == ups:
            return kept
        status = health.status(
            basis.source,
            basis.vendor,
            basis.healths,
            basis.reports,
            basis.problems,
            cpu_seconds=basis.cpu_seconds,
            now=now,
            refused=basis.refused,
        )
        return basis, ups, status
