"""Reads drivers' files in a worker, because such a file may block."""

from __future__ import annotations

import base64
import errno
import fnmatch
import glob
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from itertools import islice

from telemetry_daemon.guarded.reading import read_file
from telemetry_parsers.codec.worker_answer import output
from telemetry_parsers.typing_names import TYPE_CHECKING

if TYPE_CHECKING:
    from telemetry_parsers.model import Files, Plain

FILE_LIMIT_BYTES = 64 << 10
# No node has this many matching paths, so a pattern with more matches is a mistake.
MATCH_LIMIT = 16_384

# Paths are strings: for hundreds of files every two seconds, pathlib would double the CPU time.
_Reader = Callable[[str, str], "Plain"]
# Cached, because hundreds of patterns contain the same parts at every poll.
_has_wildcard = cache(glob.has_magic)


def read_files(request: dict[str, Plain], root: str = "/") -> list[Plain]:
    """Return a serialized `Output` for each matching path, named by the path below `root`, and sorted by name."""
    root_path = root.rstrip("/")
    rules = _SkipRules(root_path, request["skip_when"])
    readers: tuple[tuple[Iterable[str], _Reader], ...] = (
        (request["globs"], _text_output),
        (request["links"], _link_output),
        (request["binary"], _binary_output),
    )
    matcher = PathMatcher(root_path)
    outputs = [result for patterns, read in readers for result in _read_matches(matcher, patterns, read, rules)]
    return sorted(outputs, key=lambda result: result["name"])


def has_folder(request: Files, root: str) -> bool:
    """Return whether, for any pattern, the folders before the first wildcard exist. Never blocks."""
    patterns = (*request.globs, *request.links, *request.binary)
    root_path = root.rstrip("/")
    return any(os.path.exists("/".join((root_path, *fixed_folders(pattern))) or "/") for pattern in patterns)  # noqa: PTH110  # paths are strings here


def _read_matches(matcher: PathMatcher, patterns: Iterable[str], read: _Reader, rules: _SkipRules) -> Iterable[Plain]:
    matched_names: set[str] = set()
    for pattern in patterns:
        paths = list(islice(matcher.matching_paths(pattern), MATCH_LIMIT + 1))
        if not paths:
            error = matcher.listing_errno(pattern)
            if error is not None:
                yield output(pattern, status=error)
        elif len(paths) > MATCH_LIMIT:
            yield output(pattern, status=errno.E2BIG)
        else:
            matched_names.update(paths)
    for name in matched_names:
        path = f"{matcher.root}/{name}"
        if not rules.must_skip(path):
            yield _read_or_error(read, "/" + name, path)


def _read_or_error(read: _Reader, name: str, path: str) -> Plain:
    try:
        return read(name, path)
    except OSError as error:
        return output(name, status=error.errno or errno.EIO)


def _text_output(name: str, path: str) -> Plain:
    return output(name, text=read_file(path, FILE_LIMIT_BYTES).decode("utf-8", errors="replace"), status=0)


def _link_output(name: str, path: str) -> Plain:
    return output(name, text=os.readlink(path), status=0)  # noqa: PTH115  # paths are strings here


def _binary_output(name: str, path: str) -> Plain:
    return output(name, status=0, data={"base64": base64.b64encode(read_file(path, FILE_LIMIT_BYTES)).decode("ascii")})


class _SkipRules:
    """Decides which paths must not be read, such as those of suspended cards."""

    def __init__(self, root: str, skip_when: Iterable[Sequence[str]]) -> None:
        self._skip_when = skip_when
        self._skip_by_folder: dict[str, bool] = {root: False}

    def must_skip(self, path: str) -> bool:
        return bool(self._skip_when) and self._is_skipped_folder(path.rpartition("/")[0])

    def _is_skipped_folder(self, folder: str) -> bool:
        if folder not in self._skip_by_folder:
            self._skip_by_folder[folder] = self._is_skipped_folder(folder.rpartition("/")[0]) or any(
                _has_content(f"{folder}/{name}", text) for name, text in self._skip_when
            )
        return self._skip_by_folder[folder]


def _has_content(path: str, text: str) -> bool:
    try:
        return read_file(path, FILE_LIMIT_BYTES).decode("utf-8", errors="replace").strip() == text.strip()
    except OSError:
        return False


class PathMatcher:
    """Finds the paths below a root that match patterns."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._names_by_folder: dict[str, frozenset[str]] = {}
        self._errnos_by_folder: dict[str, int] = {}
        self._folders_by_parts: dict[tuple[str, ...], list[str]] = {(): [""]}

    def matching_paths(self, pattern: str) -> Iterator[str]:
        """Yield the matching paths, relative to the root. `**` is not recursive."""
        *folders, file_pattern = _path_parts(pattern)
        for folder in self._matching_folders(tuple(folders)):
            yield from [folder + name for name in self._matching_names(folder, file_pattern)]

    def listing_errno(self, pattern: str) -> int | None:
        """Return the errno if the pattern's folder could not be listed, else None."""
        return self._errnos_by_folder.get("".join(f"{part}/" for part in fixed_folders(pattern)))

    def _matching_folders(self, parts: tuple[str, ...]) -> list[str]:
        if parts not in self._folders_by_parts:
            parents, part = self._matching_folders(parts[:-1]), parts[-1]
            self._folders_by_parts[parts] = [path for folder in parents for path in self._subfolders(folder, part)]
        return self._folders_by_parts[parts]

    def _subfolders(self, folder: str, part: str) -> list[str]:
        """Return the matching subfolders. If `part` has no wildcards, the subfolder may not exist."""
        names = self._matching_names(folder, part) if _has_wildcard(part) else [part]
        return [f"{folder}{name}/" for name in names]

    def _matching_names(self, folder: str, part: str) -> Collection[str]:
        names = self._names_in(folder)
        if not _has_wildcard(part):
            return [part] if part in names else []
        matching = fnmatch.filter(names, part)
        return matching if part.startswith(".") else [name for name in matching if not name.startswith(".")]

    def _names_in(self, folder: str) -> frozenset[str]:
        if folder not in self._names_by_folder:
            self._names_by_folder[folder] = frozenset()
            try:
                self._names_by_folder[folder] = frozenset(os.listdir(f"{self.root}/{folder}"))  # noqa: PTH208  # paths are strings here
            except (FileNotFoundError, NotADirectoryError):  # not an error: the driver is not loaded
                pass
            except OSError as error:  # typically EACCES; `listing_errno` returns it
                self._errnos_by_folder[folder] = error.errno or errno.EIO
        return self._names_by_folder[folder]


def fixed_folders(pattern: str) -> list[str]:
    """Return a pattern's folders before the first wildcard."""
    *folders, _ = _path_parts(pattern)
    fixed_count = next((index for index, part in enumerate(folders) if _has_wildcard(part)), len(folders))
    return folders[:fixed_count]


def _path_parts(pattern: str) -> list[str]:
    return [part for part in pattern.split("/") if part] or [""]
