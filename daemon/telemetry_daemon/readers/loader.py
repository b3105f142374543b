"""Whether a library that could not be loaded may have come: marks of all places where the dynamic loader and Python look."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

# Device, inode and time of the last change of a place; None where there is none.
Mark = tuple[int, int, int] | None

# ld.so's own folders, with and without Debian's names for them; musl's; and its list of all others, which ldconfig writes.
_OF_MACHINE = f"{os.uname().machine}-linux-gnu"
_PLACES = (
    "/etc/ld.so.cache",
    *("/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib", f"/lib/{_OF_MACHINE}", f"/usr/lib/{_OF_MACHINE}"),
)


def marks(environment: Mapping[str, str]) -> tuple[Mark, ...]:
    """What changes when a library, or its binding, comes to a place where a Python with this environment would find it."""
    listed = environment.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":")
    # A Python that was built for a folder of its own, as conda's, has that folder's libraries, too.
    own = (f"{sys.base_prefix}/lib", f"{sys.prefix}/lib")
    return tuple(map(_mark, (*filter(None, listed), *_PLACES, *own, *sys.path)))


def _mark(path: str) -> Mark:
    try:
        status = os.stat(path)  # noqa: PTH116  # a path is a text here
    except (OSError, ValueError):  # no such place, which is a mark as well
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns
