"""The interface of readers: a reader answers a poll with a capture and can be closed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.model import Capture, Failure, Output, Poll, SourceReport


@dataclass(frozen=True, slots=True)
class Targets:
    """The cards and devices of the inventory, for polls that run once per card or device; and the PIDs on all cards."""

    cards: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    pids: tuple[int, ...] = ()

    @classmethod
    def of(cls, listings: Sequence[SourceReport]) -> Targets:
        """Return the targets of the newest of these inventory reports."""
        if not listings:
            return cls()
        devices = [
            device
            for device in max(listings, key=lambda listing: listing.taken).report.devices
            if device.index is not None
        ]
        cards = dict.fromkeys(dict(device.facts).get("card", str(device.index)) for device in devices)
        return cls(tuple(cards), tuple(str(device.index) for device in devices))


@dataclass(frozen=True, slots=True)
class Begun:
    """The time at which a read began, by the wall clock and by the monotonic clock."""

    wall_time: float = field(default_factory=time.time)
    monotonic_time: float = field(default_factory=time.monotonic)

    def capture(
        self, source: str, poll: Poll, outputs: tuple[Output, ...], failure: Failure | None, cpu_seconds: float
    ) -> Capture:
        """Return the capture of this read, which ends now."""
        return Capture(
            source,
            poll.name,
            poll.request,
            outputs,
            failure,
            seconds=time.monotonic() - self.monotonic_time,
            cpu_seconds=cpu_seconds,
            wall_time=self.wall_time,
            monotonic_time=self.monotonic_time,
        )


class Reader(Protocol):
    """Reads one source. `read` never raises and never outlasts the poll's deadline by more than a second."""

    def read(self, poll: Poll, targets: Targets) -> Capture:
        """Return the source's output, or the failure that prevented it."""

    def close(self) -> None:
        """Stop all processes of the reader within a second; safe to call twice and while `read` runs."""
        return

    def left_behind(self) -> tuple[int, ...]:
        """Return the processes that did not exit when the reader was closed."""
        return ()
