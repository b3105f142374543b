"""Finds a card that was throttled, from its telemetry during the profile."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from telemetry_exporters import human
from telemetry_exporters.judgement.thresholds import pattern
from telemetry_profile.verdict.slowest_rank import Straggler
from telemetry_profile.verdict.summary import CardTelemetry
from telemetry_profile.verdict.usual_step import UsualStep

_MIN_THROTTLED = 0.10
# A mostly idle H200 always reports `sw_power_cap`, but loses only 30 of 1,980 MHz (tests/h200).
_MIN_LOST = 0.05
_IDLE_REASONS = frozenset({"idle", "gpu_idle", "none", "applications_clocks", "app_clock"})


class Throttling(NamedTuple):
    """A throttled card. `loss` is the largest share of a step that throttling may have cost."""

    share: float
    text: str
    loss: float
    is_by_power_limit: bool

    @property
    def advice(self) -> str:
        """Return a remedy to try."""
        if self.is_by_power_limit:
            return "check the power limit of the card"
        return "check the cooling and the power of the card with `telemetry check`"


def worst_throttling(
    ranks: Sequence[UsualStep], telemetry: Sequence[CardTelemetry | None], slow_rank: Straggler | None
) -> Throttling | None:
    """Return the throttling with the largest loss, or None."""
    throttlings = [
        throttling
        for rank_step, card_telemetry in zip(ranks, telemetry, strict=True)
        if card_telemetry is not None and (slow_rank is None or rank_step.member.device.rank == slow_rank.rank)
        if (throttling := _throttling_of(rank_step, card_telemetry)) is not None
    ]
    return max(throttlings, key=lambda throttling: throttling.loss, default=None)


def _throttling_of(rank_step: UsualStep, card: CardTelemetry) -> Throttling | None:
    begin, end = rank_step.member.begin_unix_ns, rank_step.member.end_unix_ns
    reasons = [(reason, seconds) for reason, seconds in card.throttled_seconds.items() if reason not in _IDLE_REASONS]
    if begin is None or end is None or end <= begin or not reasons:
        return None
    reason, seconds = reasons[0]
    share = min(1.0, seconds * 1e9 / (end - begin))
    loss = _largest_loss(rank_step, card, share)
    if share < _MIN_THROTTLED or loss < _MIN_LOST:
        return None
    clock = ""
    if card.clock_hertz is not None and card.clock_max_hertz:
        clock = f", at {card.clock_hertz.mean / 1e6:,.0f} of {card.clock_max_hertz / 1e6:,.0f} MHz"
    name = "the card" if rank_step.member.device.rank is None else f"the card of rank {rank_step.member.device.rank}"
    if card.is_guess:
        name += f" (probably {card.device})"
    text = f"{name} was throttled ({reason.replace('_', ' ')}) {human.percent(share)} of the time{clock}"
    is_by_power_limit = all(re.fullmatch(pattern("cap_reasons"), reason) for reason, _ in reasons)
    return Throttling(share, text, loss, is_by_power_limit)


def _largest_loss(rank_step: UsualStep, card: CardTelemetry, share: float) -> float:
    """Return the largest share of a step's time that may have been lost to the lower clock."""
    if card.clock_hertz is None or not card.clock_max_hertz:
        return share
    span, idle = rank_step.split.span_ns, rank_step.split.idle_ns
    working_share = 1.0 - idle / span if span and idle is not None else 1.0
    return max(0.0, 1.0 - card.clock_hertz.mean / card.clock_max_hertz) * working_share
