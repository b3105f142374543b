"""The part of a snapshot that describes the replayed recording."""

from __future__ import annotations

from telemetry_parsers.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ReplayInfo:
    """The recording that is replayed, the recorded time that is `shown`, and the state of the player (`how`)."""

    wall_time: float
    hostname: str = ""  # missing from masked recordings
    shown: float | None = None
    how: str = ""
