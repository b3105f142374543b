"""The part of a snapshot that describes the replayed recording."""

from __future__ import annotations

from telemetry_parsers.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ReplayInfo:
    """The replayed recording, the recorded time that is shown now, and the player's state, such as `10 ×, paused`."""

    wall_time: float
    hostname: str = ""  # empty if the recording is masked
    shown_time: float | None = None
    player_state: str = ""
