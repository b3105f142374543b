"""What a reader is: something that answers a poll with a capture and can be closed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from telemetry_parsers.model import Capture, Poll


@dataclass(frozen=True, slots=True)
class Targets:
    """The inventory's cards and devices, for polls that repeat a command per card or per device."""

    cards: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


class Reader(Protocol):
    """Reads one source. `read` never raises and never outlasts the poll's deadline by more than a second."""

    def read(self, poll: Poll, targets: Targets) -> Capture:
        """What the source said, or the failure that kept it from saying it."""
        ...

    def close(self) -> None:
        """End whatever is still running, within a second; safe to call twice and while `read` runs."""
        ...

    def left_behind(self) -> tuple[int, ...]:
        """The processes that did not end when the reader was closed."""
        ...
