"""Finds a tool on the configured path, or on PATH and in the vendor's folders. As root, only tools that root alone can replace are run."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from telemetry_daemon.guarded.folders import ROOT, other_writer
from telemetry_parsers.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool's file as found. Two instances compare equal as long as the file has not changed. `distrust_reason` says why the file must not be run and what to do, or is empty."""

    name: str
    path: str
    device: int = 0
    inode: int = 0
    modified_ns: int = 0
    distrust_reason: str = ""


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where a source's tools are searched. A configured path is the only one. Folders may be patterns, as for versions."""

    source: str
    configured: str
    search_path: str
    folders: tuple[str, ...]

    def find(self, name: str) -> Tool | None:
        """Return the tool's file, even if it is not executable: the attempt to run it reports why."""
        tools = [tool for tool in (_tool(name, path) for path in self._places(name)) if tool is not None]
        usable = (tool for tool in tools if os.access(tool.path, os.X_OK) and not tool.distrust_reason)
        return next(usable, tools[0] if tools else None)

    def missing(self, name: str) -> str:
        """Return where the tool was not found, and what to do."""
        if self.configured:
            return f"{self.configured} is not a file; correct sources.{self.source}.path, or leave it empty to search"
        return f"{name} was not found on PATH{_or_in(self.folders)}; install it, or set sources.{self.source}.path"

    def _places(self, name: str) -> Iterable[str]:
        if self.configured:
            return [str(Path(self.configured).absolute())]
        if "/" in name:
            return [name]
        folders = [
            *self.search_path.split(os.pathsep),
            *(path for folder in self.folders for path in _matching(folder)),
        ]
        # Absolute folders only: a relative folder would depend on the working directory.
        return dict.fromkeys(f"{folder.rstrip('/')}/{name}" for folder in folders if folder.startswith("/"))


def _or_in(folders: tuple[str, ...]) -> str:
    *others, last = folders or ("",)
    return f" or in {' or '.join(filter(None, (', '.join(others), last)))}" if last else ""


def _matching(folder: str) -> list[str]:
    return sorted(glob.glob(folder), reverse=True) if glob.has_magic(folder) else [folder]  # noqa: PTH207  # a Path of `/opt/dtk*` is no folder


def _tool(name: str, candidate: str) -> Tool | None:
    try:
        status = os.stat(candidate)  # noqa: PTH116  # on text: missing tools are searched on many paths, repeatedly
    except (OSError, ValueError):  # no tool here; the caller tries the next path
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    path = Path(candidate)
    return Tool(name, str(path), status.st_dev, status.st_ino, status.st_mtime_ns, _distrust_reason(path))


def _distrust_reason(path: Path) -> str:
    """Return who could make root run another program. Other users are not checked: they could run the tool by hand."""
    if os.geteuid() != ROOT:
        return ""
    try:
        # Some installers leave folders that are writable for root's group.
        return other_writer(path, (ROOT,), (ROOT,)) or ""
    except OSError as error:
        return f"the way to {path} cannot be followed: {error.strerror or error}"
