"""A file for one process alone, which leaves nothing behind: it has a name only while somebody needs to open it by one."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO


@dataclass(frozen=True, slots=True)
class Scratch:
    """The open file, and the name that it may have."""

    stream: BinaryIO
    _path: str

    def named(self) -> str:
        """Its path, from now until `unnamed`."""
        self.stream.flush()
        with contextlib.suppress(FileExistsError):  # where there are no files without a name it has its name already
            # A descriptor for the source's folder makes Python call linkat, which follows this link to its file.
            os.link(f"/proc/self/fd/{self.stream.fileno()}", self._path, src_dir_fd=self.stream.fileno())
        return self._path

    def unnamed(self) -> None:
        """Take the name away; who has the file open keeps it."""
        Path(self._path).unlink(missing_ok=True)


@contextlib.contextmanager
def scratch() -> Iterator[Scratch]:
    """A new file in the folder for such files, that only this user may open."""
    path = f"{tempfile.gettempdir()}/telemetry-{os.urandom(16).hex()}"
    with os.fdopen(_nameless(path), "w+b") as stream:
        made = Scratch(stream, path)
        try:
            yield made
        finally:
            made.unnamed()


def _nameless(path: str) -> int:
    """A new file without a name; with this path where its file system has no others (overlayfs before Linux 6.1)."""
    try:
        return os.open(Path(path).parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:  # what the docstring says; where the folder is at fault, this says so, too
        return os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
