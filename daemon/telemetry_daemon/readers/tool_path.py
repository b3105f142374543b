"""Where a tool is: the configured path, or PATH and then the vendor's usual folders; and whether it has changed.

As root, a tool is run only from where root alone can put it: its file, the folders above it and every link on the way.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from telemetry_daemon.guarded.folders import ROOT, other_writer


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool's file as it was found; equal as long as the file is the same.

    `distrusted` says why it must not be run, and what to do; empty for one that may be.
    """

    name: str
    path: str
    device: int = 0
    inode: int = 0
    modified_ns: int = 0
    distrusted: str = ""


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where the tools of a source are looked for: the configured path alone, if there is one.

    A folder may be a pattern, for vendors who install each version into a folder of its own.
    """

    source: str
    configured: str
    search_path: str
    folders: tuple[str, ...]

    def find(self, name: str) -> Tool | None:
        """The tool's file, even if we may not execute it: trying to run it tells why."""
        tools = [tool for tool in (_tool(name, place) for place in self._places(name)) if tool is not None]
        usable = (tool for tool in tools if os.access(tool.path, os.X_OK) and not tool.distrusted)
        return next(usable, tools[0] if tools else None)

    def missing(self, name: str) -> str:
        """Says where the tool was not found, and what to do."""
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
            *(place for folder in self.folders for place in _matching(folder)),
        ]
        # Absolute folders only: a relative one would mean whatever folder we happen to be in.
        return dict.fromkeys(f"{folder.rstrip('/')}/{name}" for folder in folders if folder.startswith("/"))


def _or_in(folders: tuple[str, ...]) -> str:
    """` or in /a, /b or /c`; nothing without folders."""
    *others, last = folders or ("",)
    return f" or in {' or '.join(filter(None, (', '.join(others), last)))}" if last else ""


def _matching(folder: str) -> list[str]:
    """The folders that a pattern such as `/opt/dtk*/bin` stands for, the newest version first."""
    return sorted(glob.glob(folder), reverse=True) if glob.has_magic(folder) else [folder]  # noqa: PTH207  # a Path of `/opt/dtk*` is no folder


def _tool(name: str, place: str) -> Tool | None:
    try:
        status = os.stat(place)  # noqa: PTH116  # a place is a text: a missing tool is looked for in many, again and again
    except (OSError, ValueError):  # no tool at this place; the caller looks at the next
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    path = Path(place)
    return Tool(name, str(path), status.st_dev, status.st_ino, status.st_mtime_ns, _distrusted(path))


def _distrusted(path: Path) -> str:
    """Who could make root run something else. For other users nothing is checked: they could run it by hand."""
    if os.geteuid() != ROOT:
        return ""
    try:
        # Some installers leave folders that root's own group may write to.
        return other_writer(path, (ROOT,), (ROOT,)) or ""
    except OSError as error:
        return f"the way to {path} cannot be followed: {error.strerror or error}"
