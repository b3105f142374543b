"""Finds a tool, and checks whether root may run it."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from telemetry_daemon.guarded.folders import ROOT, replacement_risk
from telemetry_parsers.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool's file. If `distrust_reason` is not empty, the file must not be run."""

    name: str
    path: str
    device: int = 0
    inode: int = 0
    modified_ns: int = 0
    distrust_reason: str = ""


@dataclass(frozen=True, slots=True)
class ToolSearch:
    """Searches for a source's tools at the configured `path` or, if it is empty, on PATH and in `folders`."""

    source: str
    path: str
    search_path: str
    folders: tuple[str, ...]

    def find(self, name: str) -> Tool | None:
        """Return the tool, preferably one that may be run, or None if it is missing."""
        tools = [tool for tool in (_tool_at(name, path) for path in self._candidate_paths(name)) if tool is not None]
        usable_tools = (tool for tool in tools if os.access(tool.path, os.X_OK) and not tool.distrust_reason)
        return next(usable_tools, tools[0] if tools else None)

    def missing_tool_message(self, name: str) -> str:
        """Return an error message for a missing tool, with a remedy."""
        if self.path:
            return f"{self.path} is not a file; correct sources.{self.source}.path, or leave it empty to search"
        places = f"PATH{_folders_text(self.folders)}"
        return f"{name} was not found on {places}; install it, or set sources.{self.source}.path"

    def _candidate_paths(self, name: str) -> Iterable[str]:
        if self.path:
            return [str(Path(self.path).absolute())]
        if "/" in name:
            return [name]
        folders = [
            *self.search_path.split(os.pathsep),
            *(path for folder in self.folders for path in _expand_pattern(folder)),
        ]
        # Relative folders are ignored, because they depend on the working directory.
        return dict.fromkeys(f"{folder.rstrip('/')}/{name}" for folder in folders if folder.startswith("/"))


def _folders_text(folders: tuple[str, ...]) -> str:
    *others, last = folders or ("",)
    return f" or in {' or '.join(filter(None, (', '.join(others), last)))}" if last else ""


def _expand_pattern(folder: str) -> list[str]:
    return sorted(glob.glob(folder), reverse=True) if glob.has_magic(folder) else [folder]  # noqa: PTH207  # Path.glob needs a folder


def _tool_at(name: str, candidate: str) -> Tool | None:
    try:
        status = os.stat(candidate)  # noqa: PTH116  # faster than Path.stat, at each poll
    except (OSError, ValueError):  # no tool at this path; the caller tries the next path
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    path = Path(candidate)
    return Tool(name, str(path), status.st_dev, status.st_ino, status.st_mtime_ns, _distrust_reason(path))


def _distrust_reason(path: Path) -> str:
    """Return why root must not run this program, or an empty string if it may."""
    if os.geteuid() != ROOT:
        return ""
    try:
        # Some installers leave folders that root's group may write to.
        return replacement_risk(path, (ROOT,), (ROOT,)) or ""
    except OSError as error:
        return f"{path} cannot be checked: {error.strerror or error}"
