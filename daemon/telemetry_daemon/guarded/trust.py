"""Who else could change a program before we run it: the file, a folder above it, or a link on the way there."""

from __future__ import annotations

import os
import stat
from collections.abc import Container
from pathlib import Path

from telemetry_daemon.guarded.way import Step, walk


def other_writer(path: Path, users: Container[int], groups: Container[int] = ()) -> str | None:
    """Who besides these users and groups could put another file there, and the remedy: `/opt/x can be written by others …`.

    None if nobody could. Raises OSError if the way there cannot be followed to its end.
    """
    real = path.resolve(strict=True)
    # In a sticky folder further up, such as /tmp, nobody can replace what belongs to another.
    close = (real, real.parent)
    way: list[Step] = []
    os.close(walk(path, way.append))
    return next((text for step in way if (text := _writer(step, users, groups, close)) is not None), None)


def _writer(step: Step, users: Container[int], groups: Container[int], close: tuple[Path, ...]) -> str | None:
    place, status = step.place, step.status
    if status.st_uid not in users:
        return f"{place} belongs to user {status.st_uid}, who could change what runs here: chown root {place}"
    if step.is_link:  # its mode says nothing; only who may write to its folder can point it elsewhere
        return None
    shared = stat.S_IWOTH | (0 if status.st_gid in groups else stat.S_IWGRP)
    sticky = bool(status.st_mode & stat.S_ISVTX) and place not in close
    if status.st_mode & shared and not sticky:
        return f"{place} can be written by others, who could change what runs here: chmod go-w {place}"
    return None
