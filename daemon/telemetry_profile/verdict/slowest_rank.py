"""Compares the ranks of a job."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from telemetry_exporters import human
from telemetry_profile.format_contract import Link
from telemetry_profile.verdict.usual_step import UsualStep

# Healthy cards differ, too: the matrix rates of eight MI300X in one node differed by 8 % (rocprofiler-compute).
_MIN_EXCESS = 0.10
_NOISE_FACTOR = 3.0  # an excess below this many standard errors is noise
_SLOW_RATIO = 0.5  # a link is slow below this ratio of the median rate
_MAX_EXCESS_IN_PERCENT = 3.0  # 300 %; a greater excess is shown as a factor
_EQUAL_WAIT_RATIO = 1.05  # waiting times with at most this ratio are considered equal


Reason = Literal["compute", "host"]


@dataclass(frozen=True, slots=True)
class Straggler:
    """The rank that the other ranks wait for. `excess` is relative to the median of the others."""

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
    """The difference between the ranks' step lengths. `skew` is by how much the slowest exceeds the median."""

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
    """Return the words for an excess of time, such as "20 % longer than"."""
    is_shown_in_percent = excess <= _MAX_EXCESS_IN_PERCENT
    return f"{human.percent(excess)} longer than" if is_shown_in_percent else f"{1.0 + excess:,.1f} times as long as"


def rank_spread_of(rank_steps: Sequence[UsualStep]) -> RankSpread | None:
    """Return how the ranks' step lengths differ, or None if fewer than two are known."""
    timed_steps = [rank_step for rank_step in rank_steps if rank_step.split.span_ns]
    if len(timed_steps) < 2:
        return None
    timed_steps.sort(key=lambda rank_step: (rank_step.split.span_ns or 0, rank_step.own_time_ns or 0))
    fastest, slowest = timed_steps[0], timed_steps[-1]
    median = round(statistics.median(rank_step.split.span_ns or 0 for rank_step in timed_steps))
    return RankSpread(median, slowest, fastest, (slowest.split.span_ns or 0) / median - 1.0)


def straggler_of(rank_steps: Sequence[UsualStep]) -> Straggler | None:
    """Return the rank that the other ranks wait for, or None if no rank stands out."""
    # Step lengths are not compared, because barriers make all ranks' steps equally long.
    compared = [step for step in rank_steps if step.member.device.rank is not None and step.split.compute_ns]
    if len(compared) < 2 or len({step.member.device.rank for step in compared}) < len(compared):
        return None
    by_compute = _find_straggler(compared, [step.split.compute_ns or 0 for step in compared], "compute")
    if by_compute is not None or any(step.split.idle_ns is None for step in compared):
        return by_compute
    return _find_straggler(compared, [step.own_time_ns or 0 for step in compared], "host")


def _find_straggler(rank_steps: Sequence[UsualStep], lengths: Sequence[int], reason: Reason) -> Straggler | None:
    """Return the rank with the greatest length as the straggler, if it is unusually long and the rank waits least."""
    (longest, index), *other_lengths = sorted(zip(lengths, range(len(rank_steps)), strict=True), reverse=True)
    median = statistics.median(length for length, _ in other_lengths)
    excess, candidate = longest / median - 1.0, rank_steps[index]
    others = [*rank_steps[:index], *rank_steps[index + 1 :]]
    if excess < max(_MIN_EXCESS, _NOISE_FACTOR * _noise(rank_steps)) or not _waits_least(candidate, others):
        return None
    return Straggler(candidate.member.device.rank or 0, excess, longest, round(median), reason)


def _waits_least(candidate: UsualStep, others: Sequence[UsualStep]) -> bool:
    waits = [other.waiting_ns for other in others if other.waiting_ns is not None]
    return candidate.waiting_ns is not None and bool(waits) and candidate.waiting_ns <= _EQUAL_WAIT_RATIO * min(waits)


def _noise(rank_steps: Sequence[UsualStep]) -> float:
    """Return the median of the ranks' relative standard errors of the mean compute time."""
    times_of_ranks = [step.compute_ns_of_steps for step in rank_steps if len(step.compute_ns_of_steps) > 1]
    errors = [statistics.stdev(times) / statistics.fmean(times) / len(times) ** 0.5 for times in times_of_ranks]
    return statistics.median(errors) if errors else 0.0


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
