"""Finds a card that was throttled, by its telemetry at the time of the profile."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from telemetry_exporters import human
from telemetry_exporters.judgement.thresholds import pattern
from telemetry_profile.verdict.slowest_rank import Straggler
from telemetry_profile.verdict.summary import Then
from telemetry_profile.verdict.usual_step import Usual

_LEAST_THROTTLED = 0.10
# An H200 that waits for its host most of the time reports `sw_power_cap` all the time, at 1,950 of 1,980 MHz (tests/h200).
_LEAST_LOST = 0.05
_IDLE_REASONS = frozenset({"idle", "gpu_idle", "none", "applications_clocks", "app_clock"})


class HeldBack(NamedTuple):
    """A throttled card: the share of the time, the largest possible loss of a step, and whether only its power limit is the reason."""

    share: float
    text: str
    lost: float
    is_by_limit: bool

    @property
    def advice(self) -> str:
        """Return a remedy to try."""
        if self.is_by_limit:
            return "look at the power limit of the card"
        return "look at the cooling and the power of the card: `telemetry check`"


def most_held_back(ranks: Sequence[Usual], then: Sequence[Then | None], slow_rank: Straggler | None) -> HeldBack | None:
    """Return the card with the largest loss; if there is a straggler, only the card of that rank counts."""
    found = [
        held_back
        for rank, card in zip(ranks, then, strict=True)
        if card is not None and (slow_rank is None or rank.member.device.rank == slow_rank.rank)
        if (held_back := _held_back(rank, card)) is not None
    ]
    return max(found, key=lambda held_back: held_back.lost, default=None)


def _held_back(rank: Usual, card: Then) -> HeldBack | None:
    begin, end = rank.member.begin_unix_ns, rank.member.end_unix_ns
    reasons = [(reason, seconds) for reason, seconds in card.throttled_seconds.items() if reason not in _IDLE_REASONS]
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
    name = "the card" if rank.member.device.rank is None else f"the card of rank {rank.member.device.rank}"
    if card.is_guess:
        name += f", if it is {card.device},"
    text = f"{name} was throttled ({reason.replace('_', ' ')}) {human.percent(share)} of the time{clock}"
    is_by_limit = all(re.fullmatch(pattern("cap_reasons"), reason) for reason, _ in reasons)
    return HeldBack(share, text, lost, is_by_limit)


def _lost(rank: Usual, card: Then, share: float) -> float:
    """Return the largest loss of a step by a lower clock, or the throttled time without a clock; waiting loses nothing."""
    if card.clock_hertz is None or not card.clock_max_hertz:
        return share
    span, idle = rank.split.span_ns, rank.split.idle_ns
    working = 1.0 - idle / span if span and idle is not None else 1.0
    return max(0.0, 1.0 - card.clock_hertz.mean / card.clock_max_hertz) * working
