"""What is known of a recording that is replayed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Recorded:
    """When what is replayed was recorded, in Unix seconds, and on which host; masked recordings do not name it."""

    wall_time: float
    hostname: str = ""
