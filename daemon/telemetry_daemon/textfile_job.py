"""Writes the metrics for node_exporter's textfile collector: a whole file or none."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from telemetry_daemon.log import ChangeLog
from telemetry_exporters import textfile
from telemetry_parsers.model import Metric, Snapshot

log = logging.getLogger(__name__)

# The collector runs as another user.
_MODE = 0o644
_PATIENCE_SECONDS = 1.0


class TextfileJob:
    """Replaces one file with the metrics of the current snapshot, and takes it away where it would be out of date.

    The collector reads what it finds: to it, a file that is not replaced any more says the same for ever.
    """

    def __init__(self, path: str, snapshot: Callable[[], Snapshot], metrics: Mapping[str, Metric]) -> None:
        self._path = Path(path)
        self._snapshot = snapshot
        self._metrics = metrics
        self._changes = ChangeLog()
        self._turn = threading.Lock()
        self._ended = False
        self.wanted = bool(path)

    def run(self) -> None:
        """Write once; a failure is logged once for as long as it lasts."""
        with self._turn:
            content = textfile.render(self._snapshot(), self._metrics)
            if self._ended:
                return
            try:
                _renew(self._path, content)
                self._changes.changed("textfile", "ok")
            except OSError as error:
                if self._changes.changed("textfile", error.errno):
                    log.warning("cannot write the textfile", extra={"path": str(self._path), "error": error})

    def end(self) -> None:
        """Take the file away and write no more; a disk that hangs is not waited for."""
        self._ended = True
        if not self.wanted or not self._turn.acquire(timeout=_PATIENCE_SECONDS):
            return
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("cannot take the textfile away", extra={"path": str(self._path), "error": error})
        finally:
            self._turn.release()


def _renew(path: Path, content: bytes) -> None:
    """Put the content in place, or leave nothing there and raise OSError."""
    try:
        write_whole(path, content)
    except OSError:
        path.unlink(missing_ok=True)
        write_whole(path, content)  # on a full disk, the room of the old one may do


def write_whole(path: Path, content: bytes) -> None:
    """Put the content in place at once, readable by all. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        # The folder may be another user's: what lies there is not written into, nor is a link followed.
        temporary.unlink(missing_ok=True)
        with open(temporary, "xb") as file:  # noqa: PTH123  # a Path opens alike, but write_bytes follows links
            file.write(content)
            os.fchmod(file.fileno(), _MODE)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
