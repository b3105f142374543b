"""What telemetry told of a card in the seconds of a profile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Match = Literal["uuid", "bus_id", "rank", "index"]
"""How the profile's card was found among the node's; by its index it is a guess, since jobs see cards under numbers of their own."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The samples of one reading: least, mean and most."""

    low: float
    mean: float
    high: float


@dataclass(frozen=True, slots=True)
class Then:
    """One card in a span of time. None and empty stand for what was not told; `throttled_seconds` has (reason, seconds), longest first.

    `errors` are sentences such as "Xid 79 at 08:57:04".
    """

    device: str
    model: str
    matched_by: Match
    samples: int
    clock_hertz: Spread | None = None
    clock_max_hertz: float | None = None
    temperature_celsius: Spread | None = None
    power_watts: Spread | None = None
    power_cap_watts: float | None = None
    throttled_seconds: tuple[tuple[str, float], ...] = ()
    errors: tuple[str, ...] = ()

    @property
    def is_guess(self) -> bool:
        """Whether another card may be meant."""
        return self.matched_by == "index"
