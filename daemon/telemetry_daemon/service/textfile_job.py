"""Writes the metrics for node_exporter's textfile collector: a complete file or none."""

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
_MODE = 0o644
_PATIENCE_SECONDS = 1.0


class TextfileJob:
    """Replaces one file with the metrics of the current snapshot, and removes it when the daemon ends.

    The collector refuses timestamps and cannot recognize an old file, so a remaining file would be scraped for ever. The
    file includes the daemon's metrics: `telemetry_source_up` shows that not only the file but the readings are recent.
    """

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
        self._turn = threading.Lock()
        self._ended = False
        self.is_configured = bool(path)

    def run(self) -> None:
        """Write once; a lasting failure is logged once."""
        with self._turn:
            content = text_page(self._snapshot(), self._metrics, self._owners)
            if self._ended:
                return
            try:
                _renew(self._path, content)
                self._changes.changed("textfile", "ok")
            except OSError as error:
                if self._changes.changed("textfile", error.errno):
                    log.warning("cannot write the textfile", extra={"path": str(self._path), "error": error})

    def end(self) -> None:
        """Remove the file and stop writing, without waiting for a hanging disk."""
        self._ended = True
        if not self.is_configured or not self._turn.acquire(timeout=_PATIENCE_SECONDS):
            return
        try:
            named.remove(self._path)
        except OSError as error:
            log.warning("cannot remove the textfile", extra={"path": str(self._path), "error": error})
        finally:
            self._turn.release()


def _renew(path: Path, content: bytes) -> None:
    """Replace the file's content, or remove the file and raise OSError."""
    try:
        named.replace(path, content, _MODE)
    except OSError:
        named.remove(path)
        named.replace(path, content, _MODE)  # the old file's space may be needed on a full disk
