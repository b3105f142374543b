"""What is known of a recording that is replayed."""

from __future__ import annotations

from telemetry_parsers.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Recorded:
    """When what is replayed was recorded, in Unix seconds, and on which host; masked recordings do not name it.

    `shown` is the moment of it that is shown, `how` a word if it is not just played: `paused`, `10 ×`.
    """

    wall_time: float
    hostname: str = ""
    shown: float | None = None
    how: str = ""
