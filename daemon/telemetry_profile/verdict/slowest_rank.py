"""Compares the ranks of a job."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from telemetry_exporters import human
from telemetry_profile.format_contract import Link
from telemetry_profile.verdict.usual_step import UsualStep

# The matrix rates of eight healthy MI300X in one node differed by 8 % (rocprofiler-compute).
_MIN_EXCESS = 0.10
_NOISE_FACTOR = 3.0
_SLOW_RATIO = 0.5
_MAX_PERCENT = 3.0
_SAME_RATIO = 1.05  # waits with at most this ratio are considered equal


Reason = Literal["compute", "host"]


@dataclass(frozen=True, slots=True)
class Straggler:
    """The rank that the others wait for. `excess` is relative to the median."""

    rank: int
    excess: float
    length_ns: int
    median_ns: int
    reason: Reason

    @property
    def text(self) -> str:
        """Return the sentence that explains the straggler in the verdict."""
        lengths = f"({human.short_duration(self.length_ns)} against {human.short_duration(self.median_ns)})"
        if self.reason == "compute":
            return f"rank {self.rank} delays the other ranks: it computes {excess_text(self.excess)} they do {lengths}"
        return f"the host of rank {self.rank} delays all ranks: the rank's card computes or is idle {excess_text(self.excess)} the others {lengths}"

    @property
    def advice(self) -> str:
        """Return a remedy to try."""
        if self.reason == "compute":
            return f"compare the card and the work of rank {self.rank} with those of the other ranks"
        return f"check the host of rank {self.rank}: its CPUs, its data and its other programs"


@dataclass(frozen=True, slots=True)
class RankSpread:
    """The difference between the ranks' step lengths. `skew` is relative to the median."""

    median_ns: int
    slowest: UsualStep
    fastest: UsualStep
    skew: float


@dataclass(frozen=True, slots=True)
class SlowLink:
    """A link that is far slower than others of its kind. Rates are bytes per second."""

    link: Link
    rate: float
    median_rate: float


def excess_text(excess: float) -> str:
    """Return a comparison, such as "20 % longer than"."""
    return f"{human.percent(excess)} longer than" if excess <= _MAX_PERCENT else f"{1.0 + excess:,.1f} times as long as"


def rank_spread_of(ranks: Sequence[UsualStep]) -> RankSpread | None:
    """Return how the ranks' step lengths differ, or None if fewer than two are known."""
    timed_ranks = sorted(
        (rank for rank in ranks if rank.split.span_ns), key=lambda rank: (rank.split.span_ns, rank.own_time_ns or 0)
    )
    if len(timed_ranks) < 2:
        return None
    median = round(statistics.median(rank.split.span_ns or 0 for rank in timed_ranks))
    return RankSpread(median, timed_ranks[-1], timed_ranks[0], (timed_ranks[-1].split.span_ns or 0) / median - 1.0)


def straggler_of(ranks: Sequence[UsualStep]) -> Straggler | None:
    """Return the rank that makes the others wait, or None."""
    # Step lengths are not compared, because barriers make all ranks' steps equally long.
    numbered_ranks = [rank for rank in ranks if rank.member.device.rank is not None and rank.split.compute_ns]
    if len(numbered_ranks) < 2 or len({rank.member.device.rank for rank in numbered_ranks}) < len(numbered_ranks):
        return None
    by_compute = _find_outlier(numbered_ranks, [rank.split.compute_ns or 0 for rank in numbered_ranks], "compute")
    if by_compute is not None or any(rank.split.idle_ns is None for rank in numbered_ranks):
        return by_compute
    return _find_outlier(numbered_ranks, [rank.own_time_ns or 0 for rank in numbered_ranks], "host")


def _find_outlier(ranks: Sequence[UsualStep], lengths: Sequence[int], reason: Reason) -> Straggler | None:
    ordered = sorted(zip(lengths, range(len(ranks)), strict=True))
    longest, longest_index = ordered[-1]
    median = statistics.median(length for length, _ in ordered[:-1])
    excess, other_ranks = longest / median - 1.0, [*ranks[:longest_index], *ranks[longest_index + 1 :]]
    if excess < max(_MIN_EXCESS, _NOISE_FACTOR * _noise(ranks)) or not _waits_least(ranks[longest_index], other_ranks):
        return None
    return Straggler(ranks[longest_index].member.device.rank or 0, excess, longest, round(median), reason)


def _waits_least(candidate: UsualStep, others: Sequence[UsualStep]) -> bool:
    waits = [rank.waiting_ns for rank in others if rank.waiting_ns is not None]
    return candidate.waiting_ns is not None and bool(waits) and candidate.waiting_ns <= _SAME_RATIO * min(waits)


def _noise(ranks: Sequence[UsualStep]) -> float:
    """Return the median relative standard error of the ranks' compute times."""
    noises = [
        statistics.stdev(rank.compute_ns) / statistics.fmean(rank.compute_ns) / len(rank.compute_ns) ** 0.5
        for rank in ranks
        if len(rank.compute_ns) > 1
    ]
    return statistics.median(noises) if noises else 0.0


def slow_links(links: Sequence[Link]) -> list[SlowLink]:
    """Return the links that are slow for their kind, the slowest first."""
    rates_by_kind: dict[str, list[tuple[float, Link]]] = {}
    for link in links:
        if link.busy_ns > 0 and link.bytes_moved > 0:
            rates_by_kind.setdefault(link.kind, []).append((link.bytes_moved * 1e9 / link.busy_ns, link))
    slow = []
    for rates_and_links in rates_by_kind.values():
        median = statistics.median(rate for rate, _ in rates_and_links)
        if len(rates_and_links) >= 3:
            slow += [SlowLink(link, rate, median) for rate, link in rates_and_links if rate < _SLOW_RATIO * median]
    return sorted(slow, key=lambda slow_link: slow_link.rate / slow_link.median_rate)
