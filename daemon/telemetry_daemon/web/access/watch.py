"""Whether files have changed: by their inode, size and times."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

SETTLING_SECONDS = 0.5

_Stamp = tuple[int, ...]


class Watch:
    """Some files as they are when the watch begins; a missing file counts as one state."""

    def __init__(self, files: Iterable[str]) -> None:
        self._stamps = {file: _stamp(file) for file in files}

    @property
    def files(self) -> tuple[str, ...]:
        """The files that are watched."""
        return tuple(self._stamps)

    def changed(self) -> bool:
        """Whether a file differs from its first state, and none was written in the last half second.

        Half of a file may be a valid file: an empty web configuration lets everybody in.
        """
        now = {file: _stamp(file) for file in self._stamps}
        return now != self._stamps and all(_settled(stamp) for stamp in now.values())


def _stamp(file: str) -> _Stamp:
    try:
        status = os.stat(file)  # noqa: PTH116  # a Path per look would be made for nothing
    except OSError as error:
        return (error.errno or -1,)
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _settled(stamp: _Stamp) -> bool:
    age_seconds = (time.time_ns() - stamp[-1]) / 1e9
    # A change "in the future" was made before the clock was set back. Waiting for it could take years.
    return not 0 <= age_seconds < SETTLING_SECONDS
