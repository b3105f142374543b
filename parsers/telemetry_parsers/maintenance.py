"""The maintenance of the node, as part of a snapshot."""

from __future__ import annotations

from telemetry_parsers.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Maintenance:
    """The announced maintenance, if there is one. `ends_in` is in seconds."""

    ends_in: float | None = None
    reason: str = ""

    @property
    def is_on(self) -> bool:
        """Return whether the node is in maintenance."""
        return self.seconds_left is not None

    @property
    def seconds_left(self) -> float | None:
        """Return the seconds until the end of the maintenance window, or None outside a window."""
        return self.ends_in if self.ends_in is not None and self.ends_in > 0 else None
