"""What a snapshot contains about the recording that is replayed."""

from __future__ import annotations

from telemetry_parsers.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ReplayInfo:
    """A replayed recording: when and where it was made. The host name is missing from masked recordings."""

    wall_time: float
    hostname: str = ""
    shown: float | None = None
    how: str = ""
