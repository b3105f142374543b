"""Captures from the running daemon of this node: nothing is polled twice for them."""

from __future__ import annotations

import time
from collections.abc import Iterator

from telemetry_daemon.control import requests
from telemetry_daemon.control import socket as control
from telemetry_daemon.control.socket import ControlError
from telemetry_parsers.codec.captures import CodecError, capture_from_plain, decode_line
from telemetry_parsers.model import Capture

# What the ring holds comes at once.
_LONGEST_SECONDS = 30.0


class FromDaemon:
    """All that is captured within so many seconds, however long it takes whoever asks for it. `lost` counts the captures for which there was no room, since they were not taken in time."""

    def __init__(self, runtime_directory: str, seconds: float, *, minutes_before: bool) -> None:
        self._path = control.path_in(runtime_directory)
        self._seconds = seconds
        self._minutes_before = minutes_before
        self.lost = 0

    def captures(self) -> Iterator[Capture]:
        """The newest of each poll, or those of the last two minutes, and then each that comes. Raises ControlError."""
        until = time.monotonic() + self._seconds
        asked = control.lines(self._path, "captures", self._seconds, minutes_before=self._minutes_before, live=True)
        for line in asked:
            capture = _capture(line)
            if isinstance(capture, int):
                self.lost += capture
            elif capture.monotonic_time <= until:  # whoever takes them slowly asks for the end late
                yield capture


def past(runtime_directory: str) -> Iterator[Capture]:
    """The captures of the last two minutes, if the daemon keeps them. Raises ControlError."""
    path = control.path_in(runtime_directory)
    for line in control.lines(path, "captures", _LONGEST_SECONDS, minutes_before=True, live=False):
        capture = _capture(line)
        if not isinstance(capture, int):
            yield capture


def _capture(line: bytes) -> Capture | int:
    """A capture, or how many were lost."""
    try:
        plain = decode_line(line)
        if (
            isinstance(plain, dict)
            and plain.get("schema") == requests.LOST_SCHEMA
            and isinstance(plain["captures"], int)
        ):
            return plain["captures"]
        return capture_from_plain(plain)
    except (CodecError, KeyError) as error:
        raise ControlError(f"the daemon gave what is no capture ({error}); is it of another version?") from None
