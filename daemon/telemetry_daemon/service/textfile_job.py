"""Writes the metrics for node_exporter's textfile collector, always as a complete file."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from telemetry_daemon.guarded import named
from telemetry_daemon.terminal.log import ChangeLog
from telemetry_exporters.prometheus.families import NO_OWNERS, OwnerSeries
from telemetry_exporters.prometheus.renderer import text_page
from telemetry_parsers.model import Metric, Snapshot

log = logging.getLogger(__name__)

# The collector runs as another user.
_FILE_MODE = 0o644
_LOCK_TIMEOUT_SECONDS = 1.0


class TextfileJob:
    """Writes the metrics to a file, and removes the file at the end."""

    def __init__(
        self,
        path: str,
        snapshot: Callable[[], Snapshot],
        metrics: Mapping[str, Metric],
        owners: OwnerSeries = NO_OWNERS,
    ) -> None:
        self._path = Path(path)
        self._snapshot = snapshot
        self._metrics = metrics
        self._owners = owners
        self._changes = ChangeLog()
        self._write_lock = threading.Lock()
        self._is_ended = False
        self.is_configured = bool(path)

    def run(self) -> None:
        """Write the file, and log failures."""
        with self._write_lock:
            content = text_page(self._snapshot(), self._metrics, self._owners)
            if self._is_ended:
                return
            try:
                _replace_file(self._path, content)
                self._changes.changed("textfile", "ok")
            except OSError as error:
                if self._changes.changed("textfile", error.errno):
                    log.warning("cannot write the textfile", extra={"path": str(self._path), "error": error})

    def end(self) -> None:
        """Stop writing and remove the file."""
        self._is_ended = True
        if not self.is_configured or not self._write_lock.acquire(timeout=_LOCK_TIMEOUT_SECONDS):
            return
        try:
            named.remove(self._path)  # the collector would export the old file forever
        except OSError as error:
            log.warning("cannot remove the textfile", extra={"path": str(self._path), "error": error})
        finally:
            self._write_lock.release()


def _replace_file(path: Path, content: bytes) -> None:
    try:
        named.replace(path, content, _FILE_MODE)
    except OSError:
        named.remove(path)
        named.replace(path, content, _FILE_MODE)  # a full disk may need the space of the old file
