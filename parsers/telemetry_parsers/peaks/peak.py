"""What a card can do at best, by data type, and where that is known from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Origin = Literal["vendor", "measured", "configured"]

# `fp32` and `fp64` are the vector units', all others the matrix units'; the name of a type without a sign is the signed one.
DTYPES = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp6", "fp4", "int8", "int4")
# Of these the first that a card has is its 16-bit matrix rate.
_SIXTEEN_BITS = ("bf16", "fp16")


@dataclass(frozen=True, slots=True)
class Rate:
    """The dense rate of one data type: operations in a second, and in one cycle of the whole device; None where unknown."""

    dtype: str
    flops: float | None
    flops_per_cycle: float | None


@dataclass(frozen=True, slots=True)
class Peak:
    """What one device can do at best; what is unknown is None. Operations of integers count as FLOPs."""

    rates: tuple[Rate, ...]
    memory_bytes_per_second: float | None
    origin: Origin

    def flops(self, dtype: str) -> float | None:
        """Operations of that type in a second, at the clock that the source quotes."""
        return next((rate.flops for rate in self.rates if rate.dtype == dtype), None)

    def flops_per_cycle(self, dtype: str) -> float | None:
        """Operations of that type in one cycle of the whole device."""
        return next((rate.flops_per_cycle for rate in self.rates if rate.dtype == dtype), None)

    @property
    def main_dtype(self) -> str | None:
        """The 16-bit type of the matrix units, None where none is known."""
        known = {rate.dtype for rate in self.rates}
        return next((dtype for dtype in _SIXTEEN_BITS if dtype in known), None)
