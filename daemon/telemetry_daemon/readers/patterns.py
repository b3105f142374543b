"""Which paths patterns match: each folder is listed once for all patterns, where `glob` would list it for each."""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Collection, Iterable, Iterator


class Folders:
    """The folders below a root as they were when first asked for."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._names: dict[str, Collection[str] | None] = {}

    def matches(self, pattern: str) -> Iterator[str]:
        """The paths below the root that match, without a leading slash. Links are followed, `**` is not recursive."""
        *folders, last = [part for part in pattern.split("/") if part] or [""]
        found: Iterable[str] = [""]
        for part in folders:
            found = [path for folder in found for path in self._below(folder, part)]
        for folder in found:
            yield from (folder + name for name in self._named(folder, last))

    def _below(self, folder: str, part: str) -> Iterable[str]:
        """The next folders; whether a plain name is one shows when it is listed."""
        names = self._named(folder, part) if glob.has_magic(part) else [part]
        return [f"{folder}{name}/" for name in names]

    def _named(self, folder: str, part: str) -> Collection[str]:
        """The names in a folder that a part of a pattern stands for."""
        names = self._listed(folder)
        if glob.has_magic(part):
            found = fnmatch.filter(names or (), part)
            return found if part.startswith(".") else [name for name in found if not name.startswith(".")]
        is_there = part in names if names is not None else os.path.lexists(f"{self.root}/{folder}{part}")
        return [part] if is_there else []

    def _listed(self, folder: str) -> Collection[str] | None:
        """The names in a folder, none where there is no such folder; None when it may be entered and not listed."""
        if folder not in self._names:
            self._names[folder] = self._list(f"{self.root}/{folder}")
        return self._names[folder]

    def _list(self, path: str) -> Collection[str] | None:
        try:
            return frozenset(os.listdir(path))  # noqa: PTH208  (paths are texts here)
        except PermissionError:
            return None
        except OSError:
            return frozenset()
