"""Hands the daemon's captures on as lines of a recording to whoever listens; while nobody does, it does nothing."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from telemetry_daemon.terminal.log import ChangeLog
from telemetry_parsers.codec.captures import CodecError, capture_to_plain, encode_line
from telemetry_parsers.model import Capture, Report

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Line:
    """A capture as a line of a recording, of which poll it is, and when that began (monotonic)."""

    source: str
    poll: str
    taken: float
    text: bytes


T = TypeVar("T")
# Gets each line from the thread of its poll: it must be quick, and must not raise.
Listener = Callable[[Line], None]


class Tap:
    """To be given to a node's sources, which call it with each capture."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: tuple[Listener, ...] = ()
        self._changes = ChangeLog()

    def __call__(self, capture: Capture, _report: Report | None) -> None:
        """Write the capture as a line, once for all listeners."""
        if not self._listeners:
            return
        try:
            text = encode_line(capture_to_plain(capture)).encode("ascii") + b"\n"
        except CodecError as error:  # a plugin's reader gave what JSON does not have
            if self._changes.changed((capture.source, capture.poll), str(error)):
                facts = {"source": capture.source, "poll": capture.poll, "error": error}
                log.warning("a capture cannot be recorded", extra=facts)
            return
        line = Line(capture.source, capture.poll, capture.monotonic_time, text)
        with self._lock:
            for listener in self._listeners:
                listener(line)

    def listen(self, listener: Listener, first: Callable[[], T]) -> T:
        """Hand each capture on to this one, too, and return what `first` gives: it is called between two captures."""
        with self._lock:
            self._listeners = (*self._listeners, listener)
            return first()

    def leave(self, listener: Listener) -> None:
        """Hand nothing on to it any more."""
        with self._lock:
            self._listeners = tuple(each for each in self._listeners if each != listener)
