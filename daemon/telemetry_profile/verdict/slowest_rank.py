"""What the ranks of a job have in common, and which of them holds up the others."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from telemetry_profile.format_contract import Link
from telemetry_profile.verdict.usual_step import Usual

# Cards of one model and one node differed by 8 % in matrix rate without any fault (rocprofiler-compute on 8 x MI300X).
_LEAST_EXCESS = 0.10
_NOISES = 3.0
_SLOW_LINK = 0.5
_EQUAL = 1.05  # waits that differ by less are the same


@dataclass(frozen=True, slots=True)
class Straggler:
    """The rank that computes longest and waits least; `excess` is its compute beyond the others' median, as a ratio."""

    rank: int
    excess: float
    compute_ns: int
    median_ns: int


@dataclass(frozen=True, slots=True)
class Spread:
    """The ranks by the length of their usual step. `skew` is how much longer the slowest takes than the median, as a ratio."""

    median_ns: int
    slowest: Usual
    fastest: Usual
    skew: float


@dataclass(frozen=True, slots=True)
class SlowLink:
    """A link that moves at less than half the median rate of its kind; rates are bytes per second."""

    link: Link
    rate: float
    median_rate: float


def spread_of(ranks: Sequence[Usual]) -> Spread | None:
    """How the ranks' steps differ; None for fewer than two that tell their length."""
    timed = [(rank.split.span_ns, rank) for rank in ranks if rank.split.span_ns]
    if len(timed) < 2:
        return None
    median = round(statistics.median(span for span, _ in timed))
    slowest, fastest = max(timed, key=lambda item: item[0])[1], min(timed, key=lambda item: item[0])[1]
    return Spread(median, slowest, fastest, (slowest.split.span_ns or 0) / median - 1.0)


def straggler_of(ranks: Sequence[Usual]) -> Straggler | None:
    """The rank that holds up the others, None where none stands out of the noise.

    Barriers make all ranks' steps equally long, so lengths say nothing: the slow one computes while the others wait.
    """
    numbered = [rank for rank in ranks if rank.member.device.rank is not None and rank.split.compute_ns]
    if len(numbered) < 2 or len({rank.member.device.rank for rank in numbered}) < len(numbered):
        return None
    by_compute = sorted(numbered, key=lambda rank: rank.split.compute_ns or 0)
    worst, others = by_compute[-1], by_compute[:-1]
    median = statistics.median(rank.split.compute_ns or 0 for rank in others)
    compute = worst.split.compute_ns or 0
    excess = compute / median - 1.0
    if excess < max(_LEAST_EXCESS, _NOISES * _noise(numbered)) or not _waits_least(worst, others):
        return None
    return Straggler(worst.member.device.rank or 0, excess, compute, round(median))


def _waits_least(worst: Usual, others: Sequence[Usual]) -> bool:
    waits = [rank.waiting_ns for rank in others if rank.waiting_ns is not None]
    return worst.waiting_ns is not None and bool(waits) and worst.waiting_ns <= _EQUAL * min(waits)


def _noise(ranks: Sequence[Usual]) -> float:
    """How uncertain the mean of a rank's compute is from step to step, as a ratio: the median rank's."""
    noises = [
        statistics.stdev(rank.compute_ns) / statistics.fmean(rank.compute_ns) / len(rank.compute_ns) ** 0.5
        for rank in ranks
        if len(rank.compute_ns) > 1
    ]
    return statistics.median(noises) if noises else 0.0


def slow_links(links: Sequence[Link]) -> list[SlowLink]:
    """The links that are slow among their kind, the slowest first."""
    by_kind: dict[str, list[tuple[float, Link]]] = {}
    for link in links:
        if link.busy_ns > 0 and link.bytes_moved > 0:
            by_kind.setdefault(link.kind, []).append((link.bytes_moved * 1e9 / link.busy_ns, link))
    found = []
    for rated in by_kind.values():
        median = statistics.median(rate for rate, _ in rated)
        if len(rated) >= 3:
            found += [SlowLink(link, rate, median) for rate, link in rated if rate < _SLOW_LINK * median]
    return sorted(found, key=lambda slow: slow.rate / slow.median_rate)
