"""Captures from the running daemon of this node: nothing is polled twice for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from telemetry_daemon.remote import control_requests
from telemetry_daemon.remote import control_socket as control
from telemetry_daemon.remote.control_socket import ControlError
from telemetry_parsers.codec.captures import CodecError, capture_from_plain
from telemetry_parsers.codec.plain import decode_foreign
from telemetry_parsers.model import Capture

# What the ring holds comes at once.
_LONGEST_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class _Note:
    """A line between captures: how many captures were lost, and when the round of polls ended."""

    lost: int
    round_ended: float | None


class FromDaemon:
    """The captures until each poll has ended once, and for so many seconds after that, even if the caller takes them slowly.

    A daemon that does not report the end of the round is given `longest_round` seconds. `lost` counts the captures that the daemon
    dropped because they were not taken in time. `until` is the end of the recording (monotonic).
    """

    def __init__(
        self,
        runtime_directory: str,
        seconds: float,
        *,
        minutes_before: bool,
        longest_round: float,
        goes_on: Callable[[], bool] = lambda: True,
    ) -> None:
        self._path = control.path_in(runtime_directory)
        self._seconds = seconds
        self._minutes_before = minutes_before
        self._goes_on = goes_on
        self.lost = 0
        self.until = time.monotonic() + longest_round + seconds

    def captures(self) -> Iterator[Capture]:
        """The newest of each poll, or those of the last two minutes, and then each that comes. Raises ControlError.

        `goes_on` is called when the round has ended.
        """
        asked = control.lines(
            self._path, "captures", lambda: self.until, minutes_before=self._minutes_before, live=True
        )
        has_round = False
        for line in asked:
            said = _said(line)
            if isinstance(said, _Note):
                self.lost += said.lost
                if said.round_ended is not None and not has_round:
                    has_round = True
                    self.until = min(said.round_ended, time.monotonic()) + (self._seconds if self._goes_on() else 0.0)
            elif said.monotonic_time <= self.until:  # a slow caller ends the request late
                yield said


def past(runtime_directory: str) -> Iterator[Capture]:
    """The captures of the last two minutes, if the daemon keeps them. Raises ControlError."""
    path, until = control.path_in(runtime_directory), time.monotonic() + _LONGEST_SECONDS
    for line in control.lines(path, "captures", lambda: until, minutes_before=True, live=False):
        said = _said(line)
        if isinstance(said, Capture):
            yield said


def _said(line: bytes) -> Capture | _Note:
    try:
        plain = decode_foreign(line)
        if (
            isinstance(plain, dict)
            and plain.get("schema") == control_requests.LOST_SCHEMA
            and isinstance(plain["captures"], int)
        ):
            ended = plain.get("round_ended")
            return _Note(plain["captures"], ended if isinstance(ended, float) else None)
        return capture_from_plain(plain)
    except (CodecError, KeyError) as error:
        raise ControlError(f"the daemon gave what is no capture ({error}); is it of another version?") from None
