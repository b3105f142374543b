"""Folders held open: private folders, which no other user can write to (state, locks, runtime), and inboxes, where others leave files."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import final

from telemetry_daemon.guarded import folders, reading
from telemetry_daemon.guarded.folders import ROOT, Step, UnsafeError, reach, reach_own
from telemetry_daemon.guarded.named import answers, new_socket
from telemetry_parsers.dataclass import dataclass

# Folders with private content are created with a narrower mode.
FOLDER_MODE = 0o755


@final
class OwnFolder:
    """A private folder, held open. Files of root become the service user's. Methods raise OSError; an UnsafeError names the remedy."""

    def __init__(self, descriptor: int, owner: tuple[int, int]) -> None:
        self._descriptor = descriptor
        self._owner = owner

    @classmethod
    def at(cls, path: Path) -> OwnFolder:
        """Open the existing folder."""
        descriptor, status = reach_own(path)
        return cls(descriptor, (status.st_uid, status.st_gid))

    @classmethod
    def made(cls, path: Path, mode: int = FOLDER_MODE) -> OwnFolder:
        """Open the folder, and create it and its parents if missing."""
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
        """Close the folder, once."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def read(self, name: str, limit_bytes: int) -> bytes:
        """Return the content of a regular file."""
        return reading.read_file(name, limit_bytes, self._descriptor)

    def replace(self, name: str, content: bytes) -> None:
        """Replace the named file in one step, safe against a power cut."""
        with folders.replacing(self._descriptor, name) as descriptor:
            folders.write(descriptor, content)
            self._give(descriptor)
            os.fsync(descriptor)  # else a power cut may leave an empty file under the name

    def append(self, name: str, content: bytes, most_bytes: int, older: str) -> None:
        """Append whole lines to a file, which is created if missing. A file that would become too large becomes the older file."""
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
        """Replace the named file in one step, readable for the folder's group."""
        with folders.replacing(self._descriptor, name) as descriptor:
            folders.write(descriptor, content)
            os.fchown(descriptor, -1, self._owner[1])
            os.fchmod(descriptor, 0o640)

    def lend(self, group: int) -> None:
        """Give the folder to this group, which can read files written with `hand_over`."""
        with _opened(self._descriptor) as folder:
            os.fchown(folder, -1, group)
        self._owner = (self._owner[0], group)

    @property
    def group(self) -> int:
        """Return the folder's group."""
        return self._owner[1]

    def names(self) -> list[str]:
        """Return the names of all files in the folder."""
        with _opened(self._descriptor) as folder, os.scandir(folder) as listed:
            return [entry.name for entry in listed]

    def changed(self) -> dict[str, float]:
        """Return when each file in the folder was last written, in seconds of the wall clock."""
        return {name: status.st_mtime for name, status in self._listed().items()}

    def sizes(self) -> dict[str, int]:
        """Return the size of each regular file in the folder."""
        return {name: status.st_size for name, status in self._listed().items() if stat.S_ISREG(status.st_mode)}

    def _listed(self) -> dict[str, os.stat_result]:
        with _opened(self._descriptor) as folder, os.scandir(folder) as listed:
            found = {entry.name: folders.status_of(folder, entry.name) for entry in listed}
        return {name: status for name, status in found.items() if status is not None}

    def lock_file(self, name: str) -> int:
        """Return a descriptor of a file to lock, created if missing; the caller closes it."""
        try:
            descriptor = folders.create(self._descriptor, name, os.O_RDWR)
        except FileExistsError:  # the usual case: the file stays for the next use
            return self.existing_lock_file(name)
        self._give(descriptor)
        return descriptor

    def existing_lock_file(self, name: str) -> int:
        """Return a descriptor of an existing file to lock; a file with a second name elsewhere is refused."""
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        descriptor = os.open(name, flags, dir_fd=self._descriptor)
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_nlink <= 1:
            return descriptor
        os.close(descriptor)
        raise UnsafeError(f"{name} is no file of its own; remove it")

    def has(self, name: str, descriptor: int) -> bool:
        """Return whether the open file still has the name."""
        return folders.has(self._descriptor, name, descriptor)

    def remove(self, name: str) -> None:
        """Remove the named file, if it exists."""
        folders.remove(self._descriptor, name)

    def bound(self, name: str, mode: int) -> socket.socket:
        """Return a Unix socket with that name and mode; an existing file of that name is replaced."""
        self.remove(name)
        with new_socket() as listener:
            # The kernel gives the file this mode (unix(7)); the umask would apply to all threads.
            os.fchmod(listener.fileno(), 0o600)
            path = f"/proc/self/fd/{self._descriptor}/{name}"  # bind() takes no folder descriptor
            listener.bind(path)
            os.chmod(path, mode)  # noqa: PTH101  # no other user can write in our folder, so the path is still the socket
        return listener

    def _give(self, descriptor: int) -> None:
        """Give a file that root created to the folder's owner, so that the daemon can use it."""
        if self._owner[0] != os.geteuid():
            os.fchown(descriptor, *self._owner)


def own_socket(path: Path, mode: int = 0o600) -> socket.socket:
    """Return a socket in a private folder, by default for this user and root alone; a dead daemon's socket is replaced. Raises OSError."""
    if answers(path):
        raise OSError(f"another daemon listens on {path}")
    with OwnFolder.made(path.parent) as folder:
        return folder.bound(path.name, mode)


def remove_socket(path: Path) -> None:
    """Remove a socket from a private folder."""
    with contextlib.suppress(OSError), OwnFolder.at(path.parent) as folder:  # gone with its folder
        folder.remove(path.name)


def _make(path: Path, mode: int) -> None:
    try:
        above = reach(path.parent)
    except FileNotFoundError:  # the parent is created as well
        if path.parent == path:
            raise
        _make(path.parent, FOLDER_MODE)
        above = reach(path.parent)
    try:
        os.mkdir(path.name, mode, dir_fd=above)
        if os.geteuid() == ROOT:
            _give_folder(path.name, above)
    except FileExistsError:  # another process was faster; its folder is checked like any other
        return
    finally:
        os.close(above)


def _give_folder(name: str, above: int) -> None:
    """Give the folder that root just created to the owner of its parent, if it is still the same folder."""
    owner = os.fstat(above)
    with _opened(above, name) as folder:
        if os.fstat(folder).st_uid == ROOT and owner.st_uid != ROOT:
            os.fchown(folder, owner.st_uid, owner.st_gid)


@contextlib.contextmanager
def _opened(above: int, name: str = ".") -> Iterator[int]:
    """Open a folder to list it or give it away; a link is not followed."""
    folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    try:
        yield folder
    finally:
        os.close(folder)


@dataclass(frozen=True, slots=True)
class Entry:
    """Distinguishes versions of a file; `changed` is the time of the last change, in nanoseconds of the wall clock."""

    inode: int
    size: int
    changed: int
    owner: int


@final
class Inbox:
    """A folder in which other users leave files. Links are not followed. Every method raises OSError; an UnsafeError names the remedy."""

    def __init__(self, descriptor: int, owner: int | None) -> None:
        self._descriptor = descriptor
        self._owner = owner  # None: any user may leave files

    @classmethod
    def at(cls, path: Path, owners: tuple[int, ...] = ()) -> Inbox:
        """Open the existing folder, which must belong to one of the owners, if any; others cannot write to it."""
        descriptor, step = _opened_inbox(path, lambda step: _refusal(step, owners))
        return cls(descriptor, step.status.st_uid)

    @classmethod
    def of_everybody(cls, path: Path) -> Inbox:
        """Open the existing folder in which any user may create files, and no user may remove or replace files of others."""
        return cls(_opened_inbox(path, _refusal_of_everybody)[0], None)

    def __enter__(self) -> Inbox:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def entries(self, wanted: Callable[[str], bool], most: int) -> Mapping[str, Entry]:
        """Return the first files with wanted names, by name."""
        return self.entries_of(sorted(self.names(wanted, most)))

    def names(self, wanted: Callable[[str], bool], most: int) -> frozenset[str]:
        """Return the first wanted names of files."""
        with os.scandir(self._descriptor) as listed:
            return frozenset(islice((entry.name for entry in listed if wanted(entry.name)), most))

    def entries_of(self, names: Iterable[str]) -> Mapping[str, Entry]:
        """Return the existing files of these names, in the order of the names."""
        found = ((name, self._entry(name)) for name in names)
        return {name: entry for name, entry in found if entry is not None}

    def read(self, name: str, limit_bytes: int) -> bytes:
        """Return the content of a regular file that was created by root, this user or the folder's owner, or by any user if allowed."""
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
    """Return a descriptor of the folder, and its step. Raises OSError, UnsafeError with the refusal."""
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
    """Return why a folder for all users is not read: without the sticky bit any user could replace the files of others."""
    if not step.is_ours:
        return f"{step.path} belongs to user {step.status.st_uid}: chown root {step.path}"
    if step.is_shared(groups=()) and not step.is_sticky:
        return f"{step.path} lets its users replace the files of others: chmod +t {step.path}"
    return ""


def _refusal(step: Step, owners: tuple[int, ...]) -> str:
    owner = step.status.st_uid
    if owners and owner not in owners:
        return f"{step.path} belongs to user {owner}: chown root {step.path}"
    if step.is_shared():
        return f"{step.path} can be written by others: chmod go-w {step.path}"
    return ""
