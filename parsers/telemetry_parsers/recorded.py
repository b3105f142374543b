"""Properties of a replayed recording."""

from __future__ import annotations

from telemetry_parsers.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Recorded:
    """The Unix time and the host of a replayed recording. Masked recordings have no host name."""

    wall_time: float
    hostname: str = ""
    shown: float | None = None
    how: str = ""
