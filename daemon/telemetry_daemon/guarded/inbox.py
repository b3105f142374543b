"""A folder in which root, its owner, or everybody leaves files for us: it is listed and read, and no link in it is followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import final

from telemetry_daemon.guarded import reading
from telemetry_daemon.guarded.way import ROOT, Step, UnsafeError, reach


@dataclass(frozen=True, slots=True)
class Entry:
    """What tells one content of a file from the next; `changed` is when it last got one, in nanoseconds of the wall clock."""

    inode: int
    size: int
    changed: int
    owner: int


@final
class Inbox:
    """Such a folder, held open. Every method raises OSError; an UnsafeError says who else could write there and what to do."""

    def __init__(self, descriptor: int, owner: int | None) -> None:
        self._descriptor = descriptor
        self._owner = owner  # None: everybody may leave files

    @classmethod
    def at(cls, path: Path, owners: tuple[int, ...] = ()) -> Inbox:
        """The existing folder, which belongs to one of the owners if any are named; others cannot write to it."""
        descriptor, step = _opened(path, lambda step: _refusal(step, owners))
        return cls(descriptor, step.status.st_uid)

    @classmethod
    def of_everybody(cls, path: Path) -> Inbox:
        """The existing folder in which everybody may leave files, and nobody may remove or replace those of others."""
        return cls(_opened(path, _refusal_of_everybody)[0], None)

    def __enter__(self) -> Inbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def entries(self, wanted: Callable[[str], bool], most: int) -> Mapping[str, Entry]:
        """The first files with such names, by name."""
        with os.scandir(self._descriptor) as listed:
            names = list(islice((one.name for one in listed if wanted(one.name)), most))
        found = ((name, self._entry(name)) for name in sorted(names))
        return {name: entry for name, entry in found if entry is not None}

    def read(self, name: str, limit_bytes: int) -> bytes:
        """The whole of a regular file that root, we or the folder's owner put there, or anybody where everybody may."""
        owner = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_uid
        if self._owner is not None and owner not in (ROOT, self._owner, os.geteuid()):
            raise UnsafeError(f"it belongs to user {owner}, who has no business here; remove it")
        return reading.read_file(name, limit_bytes, self._descriptor)

    def _entry(self, name: str) -> Entry | None:
        try:
            status = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:  # removed meanwhile
            return None
        return Entry(status.st_ino, status.st_size, max(status.st_mtime_ns, status.st_ctime_ns), status.st_uid)


def _opened(path: Path, refusal_of: Callable[[Step], str]) -> tuple[int, Step]:
    """A descriptor of the folder, and what it is. Raises OSError, UnsafeError with the refusal."""
    way = reach(path)
    try:
        step = Step(path, os.fstat(way))
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=way)
    finally:
        os.close(way)
    refusal = refusal_of(step)
    if refusal:
        os.close(descriptor)
        raise UnsafeError(refusal)
    return descriptor, step


def _refusal_of_everybody(step: Step) -> str:
    """Why a folder for everybody is not read: without the sticky bit anybody could replace the files of others."""
    mode, owner = step.status.st_mode, step.status.st_uid
    if owner not in (ROOT, os.geteuid()):
        return f"{step.place} belongs to user {owner}: chown root {step.place}"
    if mode & (stat.S_IWOTH | stat.S_IWGRP) and not mode & stat.S_ISVTX:
        return f"{step.place} lets its users replace the files of others: chmod +t {step.place}"
    return ""


def _refusal(step: Step, owners: tuple[int, ...]) -> str:
    """Why the folder is not read; empty if it is."""
    mode, owner = step.status.st_mode, step.status.st_uid
    if owners and owner not in owners:
        return f"{step.place} belongs to user {owner}: chown root {step.place}"
    if mode & (stat.S_IWOTH | (0 if step.status.st_gid == ROOT else stat.S_IWGRP)):
        return f"{step.place} can be written by others: chmod go-w {step.place}"
    return ""
