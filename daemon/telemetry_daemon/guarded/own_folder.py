"""Folders held open: our own, where no other user can write (state, locks, runtime), and those in which others leave files for us."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import final

from telemetry_daemon.guarded import folders, reading
from telemetry_daemon.guarded.folders import ROOT, Step, UnsafeError, reach, reach_own
from telemetry_daemon.guarded.named import answers, new_socket

# Folders with content that nobody else may read are made with a narrower mode.
FOLDER_MODE = 0o755


@final
class OwnFolder:
    """A folder of ours, held open. What root makes in the service user's folder is given to that user.

    Every method raises OSError; an UnsafeError says who else could write there and what to do.
    """

    def __init__(self, descriptor: int, owner: tuple[int, int]) -> None:
        self._descriptor = descriptor
        self._owner = owner

    @classmethod
    def at(cls, path: Path) -> OwnFolder:
        """The existing folder."""
        descriptor, status = reach_own(path)
        return cls(descriptor, (status.st_uid, status.st_gid))

    @classmethod
    def made(cls, path: Path, mode: int = FOLDER_MODE) -> OwnFolder:
        """The folder; if it is missing, it is made, with those above it."""
        try:
            return cls.at(path)
        except FileNotFoundError:  # the first start
            _make(path, mode)
            return cls.at(path)

    def __enter__(self) -> OwnFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the folder, once."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def read(self, name: str, limit_bytes: int) -> bytes:
        """The whole of a regular file."""
        return reading.read_file(name, limit_bytes, self._descriptor)

    def replace(self, name: str, content: bytes) -> None:
        """Put a file with this content under the name, in one step; a power cut does not undo it."""
        with folders.replacing(self._descriptor, name) as descriptor:
            folders.write(descriptor, content)
            self._give(descriptor)
            os.fsync(descriptor)  # else a power cut may leave an empty file under the name

    def append(self, name: str, content: bytes, most_bytes: int, older: str) -> None:
        """Put whole lines behind those of a file, which is made if it is missing; one that would grow larger becomes the older one."""
        with contextlib.ExitStack() as undo:
            descriptor = self.lock_file(name)
            undo.callback(os.close, descriptor)
            size = os.fstat(descriptor).st_size
            if size and size + len(content) > most_bytes:
                os.rename(name, older, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
                descriptor = self.lock_file(name)
                undo.callback(os.close, descriptor)
            folders.append(descriptor, content)

    def hand_over(self, name: str, content: bytes) -> None:
        """Put a file with this content under the name, in one step, for the folder's group to read."""
        with folders.replacing(self._descriptor, name) as descriptor:
            folders.write(descriptor, content)
            os.fchown(descriptor, -1, self._owner[1])
            os.fchmod(descriptor, 0o640)

    def lend(self, group: int) -> None:
        """Give the folder to this group, which can read what is handed over."""
        with _opened(self._descriptor) as folder:
            os.fchown(folder, -1, group)
        self._owner = (self._owner[0], group)

    @property
    def group(self) -> int:
        """Whose group the folder is."""
        return self._owner[1]

    def names(self) -> list[str]:
        """Return the names of all files in the folder."""
        with _opened(self._descriptor) as folder, os.scandir(folder) as listed:
            return [entry.name for entry in listed]

    def changed(self) -> dict[str, float]:
        """When each file in the folder was last written, in seconds of the wall clock."""
        return {name: status.st_mtime for name, status in self._listed().items()}

    def sizes(self) -> dict[str, int]:
        """The size of each regular file in the folder."""
        return {name: status.st_size for name, status in self._listed().items() if stat.S_ISREG(status.st_mode)}

    def _listed(self) -> dict[str, os.stat_result]:
        with _opened(self._descriptor) as folder, os.scandir(folder) as listed:
            found = {entry.name: folders.status_of(folder, entry.name) for entry in listed}
        return {name: status for name, status in found.items() if status is not None}

    def lock_file(self, name: str) -> int:
        """A descriptor of a file to lock, which is made if it is missing; the caller closes it."""
        try:
            descriptor = folders.create(self._descriptor, name, os.O_RDWR)
        except FileExistsError:  # as nearly always: it stays for the next one
            return self.existing_lock_file(name)
        self._give(descriptor)
        return descriptor

    def existing_lock_file(self, name: str) -> int:
        """A descriptor of an existing file to lock; a file with a second name elsewhere is refused."""
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        descriptor = os.open(name, flags, dir_fd=self._descriptor)
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_nlink <= 1:
            return descriptor
        os.close(descriptor)
        raise UnsafeError(f"{name} is no file of its own; remove it")

    def has(self, name: str, descriptor: int) -> bool:
        """Whether the open file still has the name."""
        return folders.has(self._descriptor, name, descriptor)

    def remove(self, name: str) -> None:
        """Remove what has the name, if there is anything."""
        folders.remove(self._descriptor, name)

    def bound(self, name: str, mode: int) -> socket.socket:
        """Return a Unix socket with that name and mode; a file that has the name is replaced."""
        self.remove(name)
        with new_socket() as listener:
            # The kernel gives the file this mode (unix(7)); umask is every thread's.
            os.fchmod(listener.fileno(), 0o600)
            path = f"/proc/self/fd/{self._descriptor}/{name}"  # bind() takes no folder's descriptor
            listener.bind(path)
            os.chmod(path, mode)  # noqa: PTH101  # no other user can write in our folder, so the path is still the socket
        return listener

    def _give(self, descriptor: int) -> None:
        """Give a file that root made to the folder's owner, so that the daemon can use it."""
        if self._owner[0] != os.geteuid():
            os.fchown(descriptor, *self._owner)


def own_socket(path: Path, mode: int = 0o600) -> socket.socket:
    """Return a socket in a folder of ours, by default for our user and root alone; a dead daemon's is replaced. Raises OSError."""
    if answers(path):
        raise OSError(f"another daemon listens on {path}")
    with OwnFolder.made(path.parent) as folder:
        return folder.bound(path.name, mode)


def remove_socket(path: Path) -> None:
    """Remove a socket of ours."""
    with contextlib.suppress(OSError), OwnFolder.at(path.parent) as folder:  # gone with its folder
        folder.remove(path.name)


def _make(path: Path, mode: int) -> None:
    """Make a folder, and those above it."""
    try:
        above = reach(path.parent)
    except FileNotFoundError:  # the folder above is to be made as well
        if path.parent == path:
            raise
        _make(path.parent, FOLDER_MODE)
        above = reach(path.parent)
    try:
        os.mkdir(path.name, mode, dir_fd=above)
        if os.geteuid() == ROOT:
            _give_folder(path.name, above)
    except FileExistsError:  # somebody else was faster; it is looked at like any other
        return
    finally:
        os.close(above)


def _give_folder(name: str, above: int) -> None:
    """Give the folder that root just made to the owner of the folder above, if it is still that folder."""
    owner = os.fstat(above)
    with _opened(above, name) as folder:
        if os.fstat(folder).st_uid == ROOT and owner.st_uid != ROOT:
            os.fchown(folder, owner.st_uid, owner.st_gid)


@contextlib.contextmanager
def _opened(above: int, name: str = ".") -> Iterator[int]:
    """A descriptor to list or give away a folder; a link is not followed."""
    folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    try:
        yield folder
    finally:
        os.close(folder)


@dataclass(frozen=True, slots=True)
class Entry:
    """What tells one content of a file from the next; `changed` is when it last got one, in nanoseconds of the wall clock."""

    inode: int
    size: int
    changed: int
    owner: int


@final
class Inbox:
    """A folder in which root, its owner, or everybody leaves files for us: no link in it is followed. Every method raises OSError; an UnsafeError says who else could write there and what to do."""

    def __init__(self, descriptor: int, owner: int | None) -> None:
        self._descriptor = descriptor
        self._owner = owner  # None: everybody may leave files

    @classmethod
    def at(cls, path: Path, owners: tuple[int, ...] = ()) -> Inbox:
        """The existing folder, which belongs to one of the owners if any are named; others cannot write to it."""
        descriptor, step = _opened_inbox(path, lambda step: _refusal(step, owners))
        return cls(descriptor, step.status.st_uid)

    @classmethod
    def of_everybody(cls, path: Path) -> Inbox:
        """The existing folder in which everybody may leave files, and nobody may remove or replace those of others."""
        return cls(_opened_inbox(path, _refusal_of_everybody)[0], None)

    def __enter__(self) -> Inbox:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def entries(self, wanted: Callable[[str], bool], most: int) -> Mapping[str, Entry]:
        """The first files with such names, by name."""
        return self.entries_of(sorted(self.names(wanted, most)))

    def names(self, wanted: Callable[[str], bool], most: int) -> frozenset[str]:
        """The first such names of files."""
        with os.scandir(self._descriptor) as listed:
            return frozenset(islice((entry.name for entry in listed if wanted(entry.name)), most))

    def entries_of(self, names: Iterable[str]) -> Mapping[str, Entry]:
        """The files of these names that exist, in the order of the names."""
        found = ((name, self._entry(name)) for name in names)
        return {name: entry for name, entry in found if entry is not None}

    def read(self, name: str, limit_bytes: int) -> bytes:
        """The whole of a regular file that root, we or the folder's owner put there, or anybody where everybody may."""
        owner = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_uid
        if self._owner is not None and owner not in (ROOT, self._owner, os.geteuid()):
            raise UnsafeError(f"it belongs to user {owner}, who has no business here; remove it")
        return reading.read_file(name, limit_bytes, self._descriptor)

    def _entry(self, name: str) -> Entry | None:
        status = folders.status_of(self._descriptor, name)
        if status is None:
            return None
        return Entry(status.st_ino, status.st_size, max(status.st_mtime_ns, status.st_ctime_ns), status.st_uid)


def _opened_inbox(path: Path, refusal_of: Callable[[Step], str]) -> tuple[int, Step]:
    """A descriptor of the folder, and what it is. Raises OSError, UnsafeError with the refusal."""
    way = reach(path)
    try:
        step = Step(path, os.fstat(way))
        refusal = refusal_of(step)
        if refusal:
            raise UnsafeError(refusal)
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=way), step
    finally:
        os.close(way)


def _refusal_of_everybody(step: Step) -> str:
    """Why a folder for everybody is not read: without the sticky bit anybody could replace the files of others."""
    if not step.is_ours:
        return f"{step.place} belongs to user {step.status.st_uid}: chown root {step.place}"
    if step.is_shared(groups=()) and not step.is_sticky:
        return f"{step.place} lets its users replace the files of others: chmod +t {step.place}"
    return ""


def _refusal(step: Step, owners: tuple[int, ...]) -> str:
    """Why the folder is not read; empty if it is."""
    owner = step.status.st_uid
    if owners and owner not in owners:
        return f"{step.place} belongs to user {owner}: chown root {step.place}"
    if step.is_shared():
        return f"{step.place} can be written by others: chmod go-w {step.place}"
    return ""
