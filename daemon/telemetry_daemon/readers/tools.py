"""Where a tool is: the configured path, or PATH and then the vendor's usual folders; and whether it has changed.

As root, a tool is run only from where root alone can put it: its file, the folders above it and every link on the way.
"""

from __future__ import annotations

import glob
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from telemetry_daemon.guarded.trust import other_writer
from telemetry_daemon.guarded.way import ROOT


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
        """The tool's file; one that we may or must not execute is found all the same: trying to run it tells why."""
        found = [tool for tool in (_tool(name, place) for place in self._places(name)) if tool is not None]
        usable = (tool for tool in found if os.access(tool.path, os.X_OK) and not tool.distrusted)
        return next(usable, found[0] if found else None)

    def missing(self, name: str) -> str:
        """Where the tool was looked for in vain, and what to do."""
        if self.configured:
            return f"{self.configured} is not a file; correct sources.{self.source}.path, or leave it empty to search"
        return f"{name} was not found on PATH{_or_in(self.folders)}; install it, or set sources.{self.source}.path"

    def _places(self, name: str) -> list[Path]:
        if self.configured:
            return [Path(self.configured).absolute()]
        if "/" in name:
            return [Path(name)]
        # Absolute folders only: a relative one would mean whatever folder we happen to be in.
        folders = [
            *self.search_path.split(os.pathsep),
            *(found for folder in self.folders for found in _matching(folder)),
        ]
        return [Path(folder) / name for folder in folders if folder.startswith("/")]


def _or_in(folders: tuple[str, ...]) -> str:
    """` or in /a, /b or /c`; nothing without folders."""
    *others, last = folders or ("",)
    return f" or in {' or '.join(filter(None, (', '.join(others), last)))}" if last else ""


def _matching(folder: str) -> list[str]:
    """The folders that a pattern such as `/opt/dtk*/bin` stands for, the newest version first."""
    return sorted(glob.glob(folder), reverse=True) if glob.has_magic(folder) else [folder]  # noqa: PTH207  # a Path of `/opt/dtk*` is no folder


def _tool(name: str, path: Path) -> Tool | None:
    try:
        found = path.stat()
    except (OSError, ValueError):  # no tool at this place; the caller looks at the next
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return Tool(name, str(path), found.st_dev, found.st_ino, found.st_mtime_ns, _distrusted(path))


def _distrusted(path: Path) -> str:
    """Who could have root run something else; others run what they could run by hand anyway."""
    if os.geteuid() != ROOT:
        return ""
    try:
        # Some installers leave folders that root's own group may write to.
        return other_writer(path, (ROOT,), (ROOT,)) or ""
    except OSError as error:
        return f"the way to {path} cannot be followed: {error.strerror or error}"
