"""Writes the metrics for node_exporter's textfile collector: a whole file or none."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from telemetry_daemon.log import ChangeLog
from telemetry_exporters import textfile
from telemetry_parsers.model import Metric, Snapshot

log = logging.getLogger(__name__)

# The collector runs as another user.
_MODE = 0o644


class TextfileJob:
    """Replaces one file with the metrics of the current snapshot."""

    def __init__(self, path: str, snapshot: Callable[[], Snapshot], metrics: Mapping[str, Metric]) -> None:
        self._path = Path(path)
        self._snapshot = snapshot
        self._metrics = metrics
        self._changes = ChangeLog()
        self.wanted = bool(path)

    def run(self) -> None:
        """Write once; a failure is logged once for as long as it lasts."""
        try:
            write_whole(self._path, textfile.render(self._snapshot(), self._metrics))
            self._changes.changed("textfile", "ok")
        except OSError as error:
            if self._changes.changed("textfile", error.errno):
                log.warning("cannot write the textfile", extra={"path": str(self._path), "error": error})


def write_whole(path: Path, content: bytes) -> None:
    """Put the content in place at once, readable by all. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        temporary.chmod(_MODE)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
