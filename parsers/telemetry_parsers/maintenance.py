"""The maintenance that an operator announced for the node, as a snapshot has it."""

from __future__ import annotations

from telemetry_parsers.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Maintenance:
    """Seconds until its end (less than 0 once it has ended, None when none was announced), and its reason."""

    ends_in: float | None = None
    reason: str = ""

    @property
    def is_on(self) -> bool:
        """Return whether the node is in maintenance."""
        return self.seconds_left is not None

    @property
    def seconds_left(self) -> float | None:
        """Return the seconds until the end of the maintenance, or None without maintenance."""
        return self.ends_in if self.ends_in is not None and self.ends_in > 0 else None
