"""The part of a snapshot that describes the replayed recording."""

from __future__ import annotations

from telemetry_parsers.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ReplayInfo:
    """The replayed recording, the recorded time that is `shown`, and the player's state (`how`)."""

    wall_time: float
    hostname: str = ""  # empty if the recording is masked
    shown: float | None = None
    how: str = ""
