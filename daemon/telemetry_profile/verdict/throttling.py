"""Finds the throttled card that cost the most time, from the telemetry during the profile."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from telemetry_exporters import human
from telemetry_exporters.judgement.thresholds import pattern
from telemetry_profile.verdict.slowest_rank import Straggler
from telemetry_profile.verdict.summary import CardTelemetry
from telemetry_profile.verdict.usual_step import UsualStep

_MIN_THROTTLED_SHARE = 0.10
# A mostly idle H200 always reports `sw_power_cap`, but loses only 30 of 1,980 MHz (tests/h200).
_MIN_LOSS = 0.05
_HARMLESS_REASONS = frozenset({"idle", "gpu_idle", "none", "applications_clocks", "app_clock"})


class Throttling(NamedTuple):
    """A throttled card. `share` is how much of the time it was throttled, `loss` how much of a step this cost at most."""

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
    rank_steps: Sequence[UsualStep], telemetry: Sequence[CardTelemetry | None], straggler: Straggler | None
) -> Throttling | None:
    """Return the throttling with the largest loss, if any. If there is a straggler, only its card is examined."""
    throttlings = [
        throttling
        for rank_step, card_telemetry in zip(rank_steps, telemetry, strict=True)
        if card_telemetry is not None and (straggler is None or rank_step.member.device.rank == straggler.rank)
        if (throttling := _throttling_of(rank_step, card_telemetry)) is not None
    ]
    return max(throttlings, key=lambda throttling: throttling.loss, default=None)


def _throttling_of(rank_step: UsualStep, card: CardTelemetry) -> Throttling | None:
    begin, end = rank_step.member.begin_unix_ns, rank_step.member.end_unix_ns
    reasons = [reason for reason in card.throttled_seconds if reason not in _HARMLESS_REASONS]  # the longest first
    if begin is None or end is None or end <= begin or not reasons:
        return None
    share = min(1.0, card.throttled_seconds[reasons[0]] * 1e9 / (end - begin))
    loss = _max_loss(rank_step, card, share)
    if share < _MIN_THROTTLED_SHARE or loss < _MIN_LOSS:
        return None
    clock = ""
    if card.clock_hertz is not None and card.clock_max_hertz:
        clock = f", at {card.clock_hertz.mean / 1e6:,.0f} of {card.clock_max_hertz / 1e6:,.0f} MHz"
    name = "the card" if rank_step.member.device.rank is None else f"the card of rank {rank_step.member.device.rank}"
    if card.is_guess:
        name += f" (probably {card.device})"
    text = f"{name} was throttled ({reasons[0].replace('_', ' ')}) {human.percent(share)} of the time{clock}"
    is_by_power_limit = all(re.fullmatch(pattern("cap_reasons"), reason) for reason in reasons)
    return Throttling(share, text, loss, is_by_power_limit)


def _max_loss(rank_step: UsualStep, card: CardTelemetry, share: float) -> float:
    """Return the largest share of a step that a lower clock may have cost, or `share` if the clock is unknown."""
    if card.clock_hertz is None or not card.clock_max_hertz:
        return share
    span, idle = rank_step.split.span_ns, rank_step.split.idle_ns
    working_share = 1.0 - idle / span if span and idle is not None else 1.0
    return max(0.0, 1.0 - card.clock_hertz.mean / card.clock_max_hertz) * working_share
