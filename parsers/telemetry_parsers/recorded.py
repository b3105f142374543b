"""The description of a replayed recording."""

from __future__ import annotations

from telemetry_parsers.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Recorded:
    """When a replayed recording was made, in Unix seconds, and on which host; masked recordings have no host name."""

    wall_time: float
    hostname: str = ""
    shown: float | None = None
    how: str = ""
