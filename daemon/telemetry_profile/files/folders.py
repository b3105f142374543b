"""The files that a command line means: those that it names, and those in the folders that it names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

MOST_FILES, DEEPEST = 20_000, 12


@dataclass(frozen=True, slots=True)
class Found:
    """A file to read. `shown` is how it is called towards the user; `is_named` says that the user named it, not its folder."""

    path: str
    shown: str
    is_named: bool

    @property
    def folders(self) -> tuple[str, ...]:
        """The names of the folders above, the nearest last."""
        return Path(os.path.abspath(self.path)).parent.parts[1:]  # noqa: PTH100  # resolve() would follow links


class TooManyFilesError(OSError):
    """A folder has more files than are read."""


def find(paths: Sequence[str]) -> list[Found]:
    """The files in the order of their names. Raises OSError for a path that is not there, TooManyFilesError."""
    found: dict[str, Found] = {}
    for path in paths:
        if Path(path).is_dir():
            inside = (Found(each, os.path.relpath(each, path), is_named=False) for each in sorted(_files(path, 0)))
            for one in inside:
                found.setdefault(one.path, one)
                if len(found) > MOST_FILES:
                    raise TooManyFilesError(
                        0, f"it has more than {MOST_FILES:,} files; name the folder of one run", path
                    )
        else:
            Path(path).stat()
            found[path] = Found(path, path, is_named=True)
    return list(found.values())


def _files(folder: str, depth: int) -> Iterator[str]:
    """Regular files below; what is hidden, and links to folders, are passed over."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                if depth < DEEPEST:
                    yield from _files(entry.path, depth + 1)
            elif entry.is_file():
                yield entry.path
