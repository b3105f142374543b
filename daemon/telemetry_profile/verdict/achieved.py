"""The floating-point operations that a rank did in a second, and how much of the peak that is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from telemetry_profile.verdict.summary import Usual

FindPeak = Callable[[str, str], float | None]
"""The peak in FLOP/s of a model and a dtype, None where no table has it."""


@dataclass(frozen=True, slots=True)
class Achieved:
    """FLOP/s of one rank. From shapes of matrix operators it is a lower bound; `peak` and `share` are None for an unknown card."""

    flops_per_second: float
    basis: Literal["given", "told", "shapes"]
    dtype: str
    peak: float | None

    @property
    def share(self) -> float | None:
        """The part of the peak, as a ratio."""
        return self.flops_per_second / self.peak if self.peak else None


def achieved_of(rank: Usual, flops_per_step: float | None, dtype: str, find_peak: FindPeak) -> Achieved | None:
    """What the rank achieved; None where neither the file nor the user says how much there was to do."""
    device = rank.member.device
    named = dtype or device.dtype
    rate, basis = _rate(rank, flops_per_step)
    if rate is None or basis is None:
        return None
    return Achieved(rate, basis, named, find_peak(device.card.model, named))


def _rate(rank: Usual, flops_per_step: float | None) -> tuple[float | None, Literal["given", "told", "shapes"] | None]:
    span, flops = rank.split.span_ns, rank.member.device.flops
    if flops_per_step is not None:
        return (flops_per_step * 1e9 / span, "given") if span and rank.steps else (None, None)
    if flops is None:
        return None, None
    if flops.per_second is not None:
        return flops.per_second, flops.basis
    if flops.per_step is not None and span and rank.steps:
        return flops.per_step * 1e9 / span, flops.basis
    whole = rank.member.device.split.span_ns
    return (flops.total * 1e9 / whole, flops.basis) if flops.total is not None and whole else (None, None)
