"""How many times as fast a recording is played, as people write it: `2`, `0.5x`."""

from __future__ import annotations

SLOWEST, FASTEST = 0.1, 100.0


def speed(text: str) -> float:
    """The number that a text names. Raises ValueError if it is none, or too slow or fast."""
    try:
        times = float(text.strip().rstrip("x×"))
    except ValueError:  # it is refused as 0 is
        times = 0.0
    if not SLOWEST <= times <= FASTEST:
        raise ValueError(f"'{text}' is no speed; write a number from {SLOWEST:g} to {FASTEST:g}")
    return times
