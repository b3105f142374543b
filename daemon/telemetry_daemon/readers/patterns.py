"""Which paths patterns match: each folder is listed once for all patterns, where `glob` would list it for each."""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Collection, Iterable, Iterator


class Folders:
    """The folders below a root, as they were when first asked for."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._names: dict[str, frozenset[str]] = {}

    def matches(self, pattern: str) -> Iterator[str]:
        """The paths below the root that match, without a leading slash. Links are followed, `**` is not recursive."""
        *folders, last = [part for part in pattern.split("/") if part] or [""]
        paths: Iterable[str] = [""]
        for part in folders:
            paths = [path for folder in paths for path in self._below(folder, part)]
        for folder in paths:
            yield from (folder + name for name in self._named(folder, last))

    def _below(self, folder: str, part: str) -> Iterable[str]:
        """The next folders. Whether a plain name is a folder shows only when it is listed."""
        names = self._named(folder, part) if glob.has_magic(part) else [part]
        return [f"{folder}{name}/" for name in names]

    def _named(self, folder: str, part: str) -> Collection[str]:
        """The names in a folder that a part of a pattern stands for."""
        names = self._listed(folder)
        if not glob.has_magic(part):
            return [part] if part in names else []
        matching = fnmatch.filter(names, part)
        return matching if part.startswith(".") else [name for name in matching if not name.startswith(".")]

    def _listed(self, folder: str) -> frozenset[str]:
        """The names in a folder; none if it is missing or may not be listed."""
        if folder not in self._names:
            try:
                self._names[folder] = frozenset(os.listdir(f"{self.root}/{folder}"))  # noqa: PTH208  # paths are texts here
            except OSError:  # missing, or not ours to list
                self._names[folder] = frozenset()
        return self._names[folder]
