"""Who else could change what we are about to run: the file, the folders above it, and every link on the way there."""

from __future__ import annotations

import stat
from collections.abc import Container, Iterator
from pathlib import Path

ROOT = 0
# As many as the kernel follows (path_resolution(7)).
_MOST_LINKS = 40


def stranger(path: Path, users: Container[int], groups: Container[int] = ()) -> str | None:
    """Somebody besides these users, and the members of these groups, who could put another file there, with the remedy.

    None when nobody could. Raises OSError when the way there cannot be followed to its end.
    """
    real = path.resolve(strict=True)
    # In a sticky folder further up, such as /tmp, nobody can replace what belongs to another.
    close = (real, real.parent)
    return next((text for place in _way(path) if (text := _writer(place, users, groups, close)) is not None), None)


def _way(path: Path) -> Iterator[Path]:
    """Every folder, link and file that is passed from / to the file."""
    here, links = Path("/"), 0
    left = list(reversed(path.absolute().parts[1:]))
    yield here
    while left:
        name = left.pop()
        if name == "..":
            here = here.parent
            continue
        place = here / name
        yield place
        if not place.is_symlink():
            here = place
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(f"too many links on the way to {path}")
        target = place.readlink()
        here = Path("/") if target.is_absolute() else here
        left.extend(reversed(target.parts[1:] if target.is_absolute() else target.parts))


def _writer(place: Path, users: Container[int], groups: Container[int], close: tuple[Path, ...]) -> str | None:
    status = place.lstat()
    if status.st_uid not in users:
        return f"{place} belongs to user {status.st_uid}, who could change what runs here: chown root {place}"
    if stat.S_ISLNK(status.st_mode):  # its mode says nothing; only who may write to its folder can point it elsewhere
        return None
    shared = stat.S_IWOTH | (0 if status.st_gid in groups else stat.S_IWGRP)
    sticky = bool(status.st_mode & stat.S_ISVTX) and place not in close
    if status.st_mode & shared and not sticky:
        return f"{place} can be written by others, who could change what runs here: chmod go-w {place}"
    return None
