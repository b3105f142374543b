"""The interface of readers, the targets of a poll, and the start time of a read."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.model import Capture, Failure, Output, Poll, SourceReport


@dataclass(frozen=True, slots=True)
class Targets:
    """The cards, devices and processes that a poll may read one at a time. A card may contain several devices."""

    cards: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    pids: tuple[int, ...] = ()

    @classmethod
    def from_reports(cls, reports: Sequence[SourceReport]) -> Targets:
        """Return the cards and devices in the newest report."""
        if not reports:
            return cls()
        devices = [
            device
            for device in max(reports, key=lambda report: report.taken).report.devices
            if device.index is not None
        ]
        cards = dict.fromkeys(dict(device.facts).get("card", str(device.index)) for device in devices)
        return cls(tuple(cards), tuple(str(device.index) for device in devices))


@dataclass(frozen=True, slots=True)
class ReadStart:
    """The start time of a read, on the wall clock and on the monotonic clock."""

    wall_time: float = field(default_factory=time.time)
    monotonic_time: float = field(default_factory=time.monotonic)

    def create_capture(
        self, source: str, poll: Poll, outputs: tuple[Output, ...], failure: Failure | None, cpu_seconds: float
    ) -> Capture:
        """Return the capture of a read that began at this time and ends now."""
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
    """Reads one source. `read` never raises an exception."""

    def read(self, poll: Poll, targets: Targets) -> Capture:
        """Return a capture with the output of the source, or with a failure."""

    def close(self) -> None:
        """Stop all processes of the reader. Safe to call twice, and during `read`."""
        return

    def leftover_pids(self) -> tuple[int, ...]:
        """Return the PIDs of processes that did not exit on `close`."""
        return ()
