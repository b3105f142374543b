"""What a reader is: something that answers a poll with a capture and can be closed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from telemetry_parsers.model import Capture, Failure, Output, Poll, SourceReport


@dataclass(frozen=True, slots=True)
class Targets:
    """The inventory's cards and devices, for polls that repeat a command per card or per device; and the pids on all cards."""

    cards: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    pids: tuple[int, ...] = ()

    @classmethod
    def of(cls, listings: Sequence[SourceReport]) -> Targets:
        """Those in the newest of these lists."""
        if not listings:
            return cls()
        devices = [
            one for one in max(listings, key=lambda listing: listing.taken).report.devices if one.index is not None
        ]
        cards = dict.fromkeys(dict(one.facts).get("card", str(one.index)) for one in devices)
        return cls(tuple(cards), tuple(str(one.index) for one in devices))


@dataclass(frozen=True, slots=True)
class Begun:
    """When a read began, by the wall clock and by the monotonic one."""

    wall_time: float = field(default_factory=time.time)
    monotonic_time: float = field(default_factory=time.monotonic)

    def capture(
        self, source: str, poll: Poll, outputs: tuple[Output, ...], failure: Failure | None, cpu_seconds: float
    ) -> Capture:
        """What the read gave; it took the time until now."""
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
        """What the source said, or the failure that kept it from saying it."""
        ...

    def close(self) -> None:
        """End whatever is still running, within a second; safe to call twice and while `read` runs. Without it nothing runs."""
        return

    def left_behind(self) -> tuple[int, ...]:
        """The processes that did not end when the reader was closed."""
        return ()
