"""Why a step is slow: the largest cause that the evidence shows, in one sentence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from telemetry_exporters import human
from telemetry_exporters.judgement.thresholds import pattern
from telemetry_profile.format_contract import Hint
from telemetry_profile.verdict.combine import Profile
from telemetry_profile.verdict.slowest_rank import Straggler, straggler_of
from telemetry_profile.verdict.summary import Then
from telemetry_profile.verdict.usual_step import Usual

Cause = Literal["throttled", "straggler", "data", "communication", "copy", "host", "compute", "unknown"]

# Below these shares of a step nothing is worth a sentence.
_LEAST_THROTTLED, _LEAST_PART, _LEAST_DATA = 0.10, 0.10, 0.05
# An H200 that waits for its host most of the time says `sw_power_cap` all the time, at 1,950 of 1,980 MHz (tests/h200).
_LEAST_LOST = 0.05
_FEWEST_LAUNCHES = 10  # of fewer the gap between two says nothing
_IDLE_REASONS = frozenset({"idle", "gpu_idle", "none", "applications_clocks", "app_clock"})


@dataclass(frozen=True, slots=True)
class Verdict:
    """The cause, and the sentence that says it with its numbers. `is_slow` is false where the card works all the time."""

    cause: Cause
    text: str
    share: float | None = None

    @property
    def is_slow(self) -> bool:
        """Whether something else than the work itself takes the time."""
        return self.cause not in ("compute", "unknown")


class _HeldBack(NamedTuple):
    """A throttled card, what of a step that may cost at most, and whether it does just what its power limit asks for."""

    verdict: Verdict
    lost: float
    is_by_limit: bool


def verdict_of(profile: Profile, ranks: Sequence[Usual], then: Sequence[Then | None]) -> Verdict:
    """The first of the causes that lie outside the program, else the largest within it."""
    # Beside files that tell the time, those with sums only say nothing of it.
    timed = [
        (rank, card)
        for rank, card in zip(ranks, then, strict=True)
        if rank.split.span_ns and rank.split.compute_ns is not None
    ]
    if timed:
        ranks, then = [rank for rank, _ in timed], [card for _, card in timed]
    slow_rank = straggler_of(ranks)
    throttled = _throttled(ranks, then, slow_rank)
    if throttled is not None and not throttled.is_by_limit:
        return throttled.verdict
    if slow_rank is not None:
        return throttled.verdict if throttled is not None else _straggler(slow_rank)
    found = (_data(ranks, profile.hints), _communication(ranks), _copies(ranks), _host(ranks))
    largest = max(filter(None, found), key=lambda verdict: verdict.share or 0.0, default=None)
    if throttled is not None and (largest is None or throttled.lost >= (largest.share or 0.0)):
        return throttled.verdict
    return largest or _working(ranks, profile)


def _throttled(ranks: Sequence[Usual], then: Sequence[Then | None], slow_rank: Straggler | None) -> _HeldBack | None:
    """The card that was held back most, as telemetry says; with a straggler only that rank's card explains anything."""
    worst: _HeldBack | None = None
    for rank, card in zip(ranks, then, strict=True):
        if card is None:
            continue
        if slow_rank is not None and rank.member.device.rank != slow_rank.rank:
            continue
        found = _held_back(rank, card)
        if found is not None and (worst is None or found.lost > worst.lost):
            worst = found
    return worst


def _held_back(rank: Usual, card: Then) -> _HeldBack | None:
    begin, end = rank.member.begin_unix_ns, rank.member.end_unix_ns
    reasons = [(reason, seconds) for reason, seconds in card.throttled_seconds if reason not in _IDLE_REASONS]
    if begin is None or end is None or end <= begin or not reasons:
        return None
    reason, seconds = reasons[0]
    share = min(1.0, seconds * 1e9 / (end - begin))
    lost = _lost(rank, card, share)
    if share < _LEAST_THROTTLED or lost < _LEAST_LOST:
        return None
    clock = ""
    if card.clock_hertz is not None and card.clock_max_hertz:
        clock = f", at {card.clock_hertz.mean / 1e6:,.0f} of {card.clock_max_hertz / 1e6:,.0f} MHz"
    whose = "the card" if rank.member.device.rank is None else f"the card of rank {rank.member.device.rank}"
    if card.is_guess:
        whose += f", if it is {card.device},"
    text = f"{whose} was throttled ({reason.replace('_', ' ')}) {human.percent(share)} of the time{clock}"
    is_by_limit = all(re.fullmatch(pattern("cap_reasons"), reason) for reason, _ in reasons)
    return _HeldBack(Verdict("throttled", text, share), lost, is_by_limit)


def _lost(rank: Usual, card: Then, share: float) -> float:
    """What of a step a lower clock costs at most: nothing while the card waits. Where no clock was told, the throttled time."""
    if card.clock_hertz is None or not card.clock_max_hertz:
        return share
    span, idle = rank.split.span_ns, rank.split.idle_ns
    working = 1.0 - idle / span if span and idle is not None else 1.0
    return max(0.0, 1.0 - card.clock_hertz.mean / card.clock_max_hertz) * working


def _straggler(slow: Straggler) -> Verdict:
    text = (
        f"rank {slow.rank} computes {human.percent(slow.excess)} longer than the others ({human.span(slow.compute_ns)} against "
        f"{human.span(slow.median_ns)}); they wait for it"
    )
    return Verdict("straggler", text, slow.excess / (1.0 + slow.excess))


def _data(ranks: Sequence[Usual], all_hints: Sequence[Hint]) -> Verdict | None:
    span, idle = _sum(ranks, "span_ns"), _sum(ranks, "idle_ns")
    waits = _sum(ranks, "data_wait_ns")
    if span and waits is not None:
        share = (waits if idle is None else min(waits, idle)) / span
        if share >= _LEAST_DATA:
            per_rank = human.span(round(waits / len(ranks)))
            if idle is None:
                return Verdict("data", f"the data loader takes {per_rank}, {human.percent(share)} of the step", idle)
            # What the card waits for while data is loaded is larger than its other causes by definition of a wait.
            return Verdict(
                "data",
                f"the card waits {human.percent(idle / span)} of the {_span_word(ranks)}; the data loader takes {per_rank}",
                idle / span,
            )
    hints = [hint for hint in all_hints if hint.cause == "data"]
    if not hints or waits is not None:  # how long it waited says more than how full a queue was
        return None
    strongest = max(hints, key=lambda hint: hint.share or 0.0)
    return Verdict("data", strongest.text, strongest.share or _LEAST_DATA)


def _communication(ranks: Sequence[Usual]) -> Verdict | None:
    share = _share(ranks, "exposed_communication_ns")
    if share is None:
        return None
    waits = _sum(ranks, "wait_ns")
    waiting = f", of which {human.span(round(waits / len(ranks)))} are waiting for other ranks" if waits else ""
    text = f"communication that nothing hides takes {human.percent(share)} of the {_span_word(ranks)}{waiting}"
    return Verdict("communication", text, share)


def _copies(ranks: Sequence[Usual]) -> Verdict | None:
    share = _share(ranks, "exposed_copy_ns")
    if share is None:
        return None
    text = f"copies that nothing hides take {human.percent(share)} of the {_span_word(ranks)}"
    return Verdict("copy", text, share)


def _host(ranks: Sequence[Usual]) -> Verdict | None:
    share, idle, launches = _share(ranks, "idle_ns"), _sum(ranks, "idle_ns"), _sum(ranks, "launches")
    if share is None or idle is None:
        return None
    text = f"the card waits {human.percent(share)} of the {_span_word(ranks)} for the host"
    if launches and launches >= _FEWEST_LAUNCHES * len(ranks):
        text += f"; between two launches {human.span(round(idle / launches))} on average"
    return Verdict("host", text, share)


def _share(ranks: Sequence[Usual], part: str) -> float | None:
    """How much of a step a part takes; None if that is unknown, or not worth a sentence."""
    span, length = _sum(ranks, "span_ns"), _sum(ranks, part)
    return length / span if span and length is not None and length / span >= _LEAST_PART else None


def _working(ranks: Sequence[Usual], profile: Profile) -> Verdict:
    span, compute, idle = (_sum(ranks, part) for part in ("span_ns", "compute_ns", "idle_ns"))
    if span and compute is not None:
        share = f"{human.percent(compute / span)} of the {_span_word(ranks)}"
        if idle is None:
            return Verdict("unknown", f"kernels run {share}; what else happened is not in the file", compute / span)
        return Verdict("compute", f"the card computes {share}", compute / span)
    if any(rank.member.device.kernels for rank in ranks):
        return Verdict("unknown", "the file has sums of kernels, and nothing of the time between them")
    if profile.calls:
        return Verdict("unknown", "the file has calls of the host only, and nothing of a card")
    return Verdict("unknown", "nothing in the file is about a card")


def _span_word(ranks: Sequence[Usual]) -> str:
    return "step" if any(rank.steps for rank in ranks) else "time"


def _sum(ranks: Sequence[Usual], part: str) -> int | None:
    """The sum over the ranks; None where one of them does not tell it."""
    values = [getattr(rank.split, part) for rank in ranks]
    return sum(values) if values and None not in values else None
