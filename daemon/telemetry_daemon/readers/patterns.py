"""Which paths patterns match: each folder is listed once for all patterns, where `glob` would list it for each."""

from __future__ import annotations

import errno
import fnmatch
import glob
import os
from collections.abc import Collection, Iterator
from functools import cache

# The same parts come again in hundreds of patterns, at every poll.
_is_pattern = cache(glob.has_magic)


class Folders:
    """The folders below a root, as they were when first asked for."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._names: dict[str, frozenset[str]] = {}
        self._errors: dict[str, int] = {}
        self._matching: dict[tuple[str, ...], list[str]] = {(): [""]}

    def matches(self, pattern: str) -> Iterator[str]:
        """The paths below the root that match, without a leading slash. Links are followed, `**` is not recursive."""
        *folders, last = _parts(pattern)
        for folder in self._folders(tuple(folders)):
            yield from [folder + name for name in self._named(folder, last)]

    def error(self, pattern: str) -> int | None:
        """The errno with which the first folder of a pattern that was matched cannot be listed; None if it can, or is missing."""
        return self._errors.get("".join(f"{part}/" for part in beginning(pattern)))

    def _folders(self, parts: tuple[str, ...]) -> list[str]:
        """The folders that the first parts of a pattern stand for: many patterns have them in common."""
        if parts not in self._matching:
            above = self._folders(parts[:-1])
            self._matching[parts] = [path for folder in above for path in self._below(folder, parts[-1])]
        return self._matching[parts]

    def _below(self, folder: str, part: str) -> list[str]:
        """The next folders. Whether a plain name is a folder shows only when it is listed."""
        names = self._named(folder, part) if _is_pattern(part) else [part]
        return [f"{folder}{name}/" for name in names]

    def _named(self, folder: str, part: str) -> Collection[str]:
        """The names in a folder that a part of a pattern stands for."""
        names = self._listed(folder)
        if not _is_pattern(part):
            return [part] if part in names else []
        matching = fnmatch.filter(names, part)
        return matching if part.startswith(".") else [name for name in matching if not name.startswith(".")]

    def _listed(self, folder: str) -> frozenset[str]:
        """The names in a folder; none if it is missing or may not be listed."""
        if folder not in self._names:
            self._names[folder] = frozenset()
            try:
                self._names[folder] = frozenset(os.listdir(f"{self.root}/{folder}"))  # noqa: PTH208  # paths are texts here
            except (FileNotFoundError, NotADirectoryError):  # no such driver here, which is no error
                pass
            except OSError as error:  # not ours to list: whoever asks is told
                self._errors[folder] = error.errno or errno.EIO
        return self._names[folder]


def beginning(pattern: str) -> list[str]:
    """The first folders of a pattern, up to the first that is itself a pattern."""
    *folders, _ = _parts(pattern)
    fixed = next((place for place, part in enumerate(folders) if _is_pattern(part)), len(folders))
    return folders[:fixed]


def _parts(pattern: str) -> list[str]:
    return [part for part in pattern.split("/") if part] or [""]
