"""Bodies of answers: made at the first request and kept while the snapshot stays the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from telemetry_daemon.site.packing import Gzipped
from telemetry_exporters.prometheus import Syntax
from telemetry_parsers.model import Snapshot


class MakesPage(Protocol):
    """What makes a page of metrics from a snapshot."""

    def __call__(self, snapshot: Snapshot, syntax: Syntax) -> bytes:
        """The page in that syntax, OpenMetrics without its end."""


class Rendered:
    """Pages of the newest snapshot. For one thread, the web server's loop."""

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        self._newest = snapshot
        self._snapshot: Snapshot | None = None
        self._bodies: dict[str, bytes] = {}
        self._gzipped: dict[str, Gzipped] = {}

    def forget(self) -> None:
        """Keep no page any longer."""
        self._snapshot = None

    def body(self, name: str, make: Callable[[Snapshot], bytes]) -> bytes:
        """The page of that name; it is made at the first request after a new snapshot."""
        snapshot = self._newest()
        if snapshot is not self._snapshot:
            self._snapshot = snapshot
            self._bodies.clear()
            self._gzipped.clear()
        if name not in self._bodies:
            self._bodies[name] = make(snapshot)
        return self._bodies[name]

    def gzipped(self, name: str, make: Callable[[Snapshot], bytes]) -> Gzipped:
        """The same, compressed."""
        body = self.body(name, make)
        if name not in self._gzipped:
            self._gzipped[name] = Gzipped(body)
        return self._gzipped[name]
