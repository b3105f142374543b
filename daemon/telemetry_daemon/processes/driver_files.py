"""Reads small files, link targets and bytes by pattern, in a worker, because a hung driver's file may block. Imports no model."""

from __future__ import annotations

import base64
import errno
import fnmatch
import glob
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING

from telemetry_daemon.guarded.reading import read_file
from telemetry_parsers.codec.worker_answer import output

if TYPE_CHECKING:
    from telemetry_parsers.model import Files, Plain

FILE_LIMIT_BYTES = 64 << 10
# More paths than the largest node has; a pattern that matches more is a mistake.
MATCH_LIMIT = 16_384

# Paths are texts here: for hundreds of files every two seconds, pathlib takes as long as the kernel.
_Read = Callable[[str, str], "Plain"]
# The same parts recur in hundreds of patterns at every poll.
_is_pattern = cache(glob.has_magic)


def read_files(request: dict[str, Plain], root: str = "/") -> list[Plain]:
    """Return one output per matching path, sorted by name, in the plain form of `Output`; `request` is the plain form
    of `Files`. An unreadable file has its errno as status and no text. Names are paths below `root`. For a link the
    text is the target; bytes are base64 in the data. Links in the folders of a pattern are followed; `**` is not
    recursive.
    """
    top = root.rstrip("/")
    skipped = _Skipped(top, request["skip_when"])
    kinds: tuple[tuple[Iterable[str], _Read], ...] = (
        (request["globs"], _text),
        (request["links"], _target),
        (request["binary"], _bytes),
    )
    folders = Folders(top)
    outputs = [found for patterns, read in kinds for found in _read_all(folders, patterns, read, skipped)]
    return sorted(outputs, key=lambda found: found["name"])


def is_there(request: Files, root: str) -> bool:
    """Return whether the first folder of any pattern exists. No driver can delay this check."""
    patterns = (*request.globs, *request.links, *request.binary)
    top = root.rstrip("/")
    return any(os.path.exists("/".join((top, *beginning(pattern))) or "/") for pattern in patterns)  # noqa: PTH110  # paths are texts here


def _read_all(folders: Folders, patterns: Iterable[str], read: _Read, skipped: _Skipped) -> Iterable[Plain]:
    names: set[str] = set()
    for pattern in patterns:
        paths = list(islice(folders.matches(pattern), MATCH_LIMIT + 1))
        if not paths:
            error = folders.error(pattern)
            if error is not None:
                yield output(pattern, status=error)
        elif len(paths) > MATCH_LIMIT:
            yield output(pattern, status=errno.E2BIG)
        else:
            names.update(paths)
    for name in names:
        path = f"{folders.root}/{name}"
        if not skipped.covers(path):
            yield _attempt(read, "/" + name, path)


def _attempt(read: _Read, name: str, path: str) -> Plain:
    try:
        return read(name, path)
    except OSError as error:
        return output(name, status=error.errno or errno.EIO)


def _text(name: str, path: str) -> Plain:
    return output(name, text=read_file(path, FILE_LIMIT_BYTES).decode("utf-8", errors="replace"), status=0)


def _target(name: str, path: str) -> Plain:
    return output(name, text=os.readlink(path), status=0)  # noqa: PTH115  # paths are texts here


def _bytes(name: str, path: str) -> Plain:
    return output(name, status=0, data={"base64": base64.b64encode(read_file(path, FILE_LIMIT_BYTES)).decode("ascii")})


class _Skipped:
    """The folders to skip according to a file in them; each such file is read once."""

    def __init__(self, root: str, skip_when: Iterable[Sequence[str]]) -> None:
        self._skip_when = skip_when
        self._known: dict[str, bool] = {root: False}

    def covers(self, path: str) -> bool:
        """Return whether a folder above the path is skipped."""
        return bool(self._skip_when) and self._is_left_out(path.rpartition("/")[0])

    def _is_left_out(self, folder: str) -> bool:
        if folder not in self._known:
            self._known[folder] = self._is_left_out(folder.rpartition("/")[0]) or any(
                _says(f"{folder}/{name}", text) for name, text in self._skip_when
            )
        return self._known[folder]


def _says(path: str, text: str) -> bool:
    try:
        return read_file(path, FILE_LIMIT_BYTES).decode("utf-8", errors="replace").strip() == text.strip()
    except OSError:  # a folder without this file is not skipped
        return False


class Folders:
    """The folders below a root, as they were when first listed."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._names: dict[str, frozenset[str]] = {}
        self._errors: dict[str, int] = {}
        self._matching: dict[tuple[str, ...], list[str]] = {(): [""]}

    def matches(self, pattern: str) -> Iterator[str]:
        """Yield the matching paths below the root without a leading slash. Links are followed; `**` is not recursive."""
        *folders, last = _parts(pattern)
        for folder in self._folders(tuple(folders)):
            yield from [folder + name for name in self._named(folder, last)]

    def error(self, pattern: str) -> int | None:
        """Return the errno if the folder before a matched pattern's first wildcard cannot be listed; None if it can or is missing."""
        return self._errors.get("".join(f"{part}/" for part in beginning(pattern)))

    def _folders(self, parts: tuple[str, ...]) -> list[str]:
        if parts not in self._matching:
            above = self._folders(parts[:-1])
            self._matching[parts] = [path for folder in above for path in self._below(folder, parts[-1])]
        return self._matching[parts]

    def _below(self, folder: str, part: str) -> list[str]:
        """Return the next folders. A plain name is checked only when it is listed."""
        names = self._named(folder, part) if _is_pattern(part) else [part]
        return [f"{folder}{name}/" for name in names]

    def _named(self, folder: str, part: str) -> Collection[str]:
        names = self._listed(folder)
        if not _is_pattern(part):
            return [part] if part in names else []
        matching = fnmatch.filter(names, part)
        return matching if part.startswith(".") else [name for name in matching if not name.startswith(".")]

    def _listed(self, folder: str) -> frozenset[str]:
        if folder not in self._names:
            self._names[folder] = frozenset()
            try:
                self._names[folder] = frozenset(os.listdir(f"{self.root}/{folder}"))  # noqa: PTH208  # paths are texts here
            except (FileNotFoundError, NotADirectoryError):  # the driver is not present, which is not an error
                pass
            except OSError as error:  # no permission; `error` reports it to the caller
                self._errors[folder] = error.errno or errno.EIO
        return self._names[folder]


def beginning(pattern: str) -> list[str]:
    """Return the leading folders of a pattern, up to the first part with a wildcard."""
    *folders, _ = _parts(pattern)
    fixed = next((position for position, part in enumerate(folders) if _is_pattern(part)), len(folders))
    return folders[:fixed]


def _parts(pattern: str) -> list[str]:
    return [part for part in pattern.split("/") if part] or [""]
