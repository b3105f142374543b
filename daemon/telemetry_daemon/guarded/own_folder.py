"""The daemon's own folders, and inboxes in which other users leave files for the daemon."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import final

from telemetry_daemon.guarded import folders, reading
from telemetry_daemon.guarded.folders import ROOT, PathStep, UnsafeError, open_folder, open_own_folder
from telemetry_daemon.guarded.named import has_listener, new_socket
from telemetry_parsers.dataclass import dataclass

# Folders with private content have a more restrictive mode.
FOLDER_MODE = 0o755


@final
class OwnFolder:
    """An open folder of the service. New files get the folder's owner."""

    def __init__(self, descriptor: int, owner: tuple[int, int]) -> None:
        self._descriptor = descriptor
        self._owner = owner

    @classmethod
    def at(cls, path: Path) -> OwnFolder:
        """Open an existing folder. Raises OSError if it is missing or if another user can write to it."""
        descriptor, status = open_own_folder(path)
        return cls(descriptor, (status.st_uid, status.st_gid))

    @classmethod
    def create_at(cls, path: Path, mode: int = FOLDER_MODE) -> OwnFolder:
        """Open a folder. If it or its parents are missing, create them."""
        try:
            return cls.at(path)
        except FileNotFoundError:  # the daemon starts for the first time
            _create_folder(path, mode)
            return cls.at(path)

    def __enter__(self) -> OwnFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the folder. Safe to call twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def read(self, name: str, limit_bytes: int) -> bytes:
        """Return the content of a regular file. Raises TooLargeError above `limit_bytes`."""
        return reading.read_file(name, limit_bytes, self._descriptor)

    def replace(self, name: str, content: bytes) -> None:
        """Replace a file atomically, and sync it to disk."""
        with folders.replacement(self._descriptor, name) as descriptor:
            folders.write(descriptor, content)
            self._give_to_owner(descriptor)
            os.fsync(descriptor)  # otherwise a power cut may leave an empty file

    def append(self, name: str, content: bytes, max_bytes: int, rotated_name: str) -> None:
        """Append lines to a file. Rotate the file before it exceeds `max_bytes`."""
        with contextlib.ExitStack() as on_exit:
            descriptor = self.open_lock_file(name)
            on_exit.callback(os.close, descriptor)
            size = os.fstat(descriptor).st_size
            if size and size + len(content) > max_bytes:
                os.rename(name, rotated_name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
                descriptor = self.open_lock_file(name)
                on_exit.callback(os.close, descriptor)
            folders.append(descriptor, content)

    def replace_for_group(self, name: str, content: bytes) -> None:
        """Replace a file atomically. The folder's group can read the new file."""
        with folders.replacement(self._descriptor, name) as descriptor:
            folders.write(descriptor, content)
            os.fchown(descriptor, -1, self._owner[1])
            os.fchmod(descriptor, 0o640)

    def set_group(self, group: int) -> None:
        """Change the group that can read the files of `replace_for_group`."""
        with folders.open_for_listing(self._descriptor) as descriptor:
            os.fchown(descriptor, -1, group)
        self._owner = (self._owner[0], group)

    @property
    def group(self) -> int:
        """Return the ID of the folder's group."""
        return self._owner[1]

    def names(self) -> list[str]:
        """Return the names of all files in the folder."""
        with folders.open_for_listing(self._descriptor) as descriptor, os.scandir(descriptor) as entries:
            return [entry.name for entry in entries]

    def modification_times(self) -> dict[str, float]:
        """Map each file name to the time of its last modification."""
        return {name: status.st_mtime for name, status in self._statuses().items()}

    def sizes(self) -> dict[str, int]:
        """Map each regular file's name to its size."""
        return {name: status.st_size for name, status in self._statuses().items() if stat.S_ISREG(status.st_mode)}

    def _statuses(self) -> dict[str, os.stat_result]:
        with folders.open_for_listing(self._descriptor) as descriptor, os.scandir(descriptor) as entries:
            statuses = {entry.name: folders.status_of(descriptor, entry.name) for entry in entries}
        return {name: status for name, status in statuses.items() if status is not None}

    def open_lock_file(self, name: str) -> int:
        """Open or create a file to lock. The caller closes the returned descriptor."""
        try:
            descriptor = folders.create(self._descriptor, name, os.O_RDWR)
        except FileExistsError:  # the usual case, because lock files are not removed
            return self.open_existing_lock_file(name)
        self._give_to_owner(descriptor)
        return descriptor

    def open_existing_lock_file(self, name: str) -> int:
        """Open an existing file to lock. The caller closes the returned descriptor."""
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        descriptor = os.open(name, flags, dir_fd=self._descriptor)
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_nlink <= 1:
            return descriptor
        os.close(descriptor)
        raise UnsafeError(f"{name} has several hard links or is not a regular file; remove it")

    def is_named(self, name: str, descriptor: int) -> bool:
        """Return whether the name still refers to the open file."""
        return folders.is_named(self._descriptor, name, descriptor)

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        folders.remove(self._descriptor, name)

    def bind_socket(self, name: str, mode: int) -> socket.socket:
        """Return a Unix socket with this name and mode, replacing an existing file."""
        self.remove(name)
        with new_socket() as listener:
            # The socket file gets this mode (unix(7)). A umask would affect all threads.
            os.fchmod(listener.fileno(), 0o600)
            path = f"/proc/self/fd/{self._descriptor}/{name}"  # bind() accepts no folder descriptor
            listener.bind(path)
            os.chmod(path, mode)  # noqa: PTH101  # no other user can replace the socket in this folder
        return listener

    def _give_to_owner(self, descriptor: int) -> None:
        if self._owner[0] != os.geteuid():
            os.fchown(descriptor, *self._owner)


def bind_own_socket(path: Path, mode: int = 0o600) -> socket.socket:
    """Bind a Unix socket in a folder of the service. Raise OSError if another daemon listens, or binding fails."""
    if has_listener(path):
        raise OSError(f"another daemon listens on {path}")
    with OwnFolder.create_at(path.parent) as folder:
        return folder.bind_socket(path.name, mode)


def remove_socket(path: Path) -> None:
    """Remove a socket from a folder of the service."""
    with contextlib.suppress(OSError), OwnFolder.at(path.parent) as folder:  # the folder may have been removed
        folder.remove(path.name)


def _create_folder(path: Path, mode: int) -> None:
    try:
        parent_descriptor = open_folder(path.parent)
    except FileNotFoundError:  # the parent must be created first
        if path.parent == path:
            raise
        _create_folder(path.parent, FOLDER_MODE)
        parent_descriptor = open_folder(path.parent)
    try:
        os.mkdir(path.name, mode, dir_fd=parent_descriptor)
        if os.geteuid() == ROOT:
            _give_folder(path.name, parent_descriptor)
    except FileExistsError:  # created by another process; the caller checks it
        return
    finally:
        os.close(parent_descriptor)


def _give_folder(name: str, parent_descriptor: int) -> None:
    parent_status = os.fstat(parent_descriptor)
    with folders.open_for_listing(parent_descriptor, name) as descriptor:
        if os.fstat(descriptor).st_uid == ROOT and parent_status.st_uid != ROOT:
            os.fchown(descriptor, parent_status.st_uid, parent_status.st_gid)


@dataclass(frozen=True, slots=True)
class FileVersion:
    """The state of a file. A different state means that the file has changed."""

    inode: int
    size: int
    changed_ns: int
    owner: int


@final
class Inbox:
    """A folder in which other users leave files for the daemon. Methods raise OSError if it or a file is unusable."""

    def __init__(self, descriptor: int, owner: int | None) -> None:
        self._descriptor = descriptor
        self._owner = owner  # if None, files of all users are accepted

    @classmethod
    def at(cls, path: Path, owners: tuple[int, ...] = ()) -> Inbox:
        """Open an existing folder to which only its owner can write."""
        descriptor, step = _open_inbox(path, lambda step: _private_folder_problem(step, owners))
        return cls(descriptor, step.status.st_uid)

    @classmethod
    def open_public(cls, path: Path) -> Inbox:
        """Open an existing folder in which users cannot replace each other's files."""
        return cls(_open_inbox(path, _public_folder_problem)[0], None)

    def __enter__(self) -> Inbox:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def versions(self, is_wanted: Callable[[str], bool], max_count: int) -> Mapping[str, FileVersion]:
        """Map the names of up to `max_count` wanted files to file versions, in alphabetical order."""
        return self.versions_of(sorted(self.names(is_wanted, max_count)))

    def names(self, is_wanted: Callable[[str], bool], max_count: int) -> frozenset[str]:
        """Return up to `max_count` of the wanted file names."""
        with os.scandir(self._descriptor) as entries:
            return frozenset(islice((entry.name for entry in entries if is_wanted(entry.name)), max_count))

    def versions_of(self, names: Iterable[str]) -> Mapping[str, FileVersion]:
        """Map the names of existing files to file versions, in the given order."""
        versions = ((name, self._version_of(name)) for name in names)
        return {name: version for name, version in versions if version is not None}

    def read(self, name: str, limit_bytes: int) -> bytes:
        """Return the content of a regular file. Raises UnsafeError if the file's owner is not accepted."""
        owner = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_uid
        if self._owner is not None and owner not in (ROOT, self._owner, os.geteuid()):
            raise UnsafeError(f"it belongs to user {owner}, whose files are not accepted here; remove it")
        return reading.read_file(name, limit_bytes, self._descriptor)

    def _version_of(self, name: str) -> FileVersion | None:
        status = folders.status_of(self._descriptor, name)
        if status is None:
            return None
        return FileVersion(status.st_ino, status.st_size, max(status.st_mtime_ns, status.st_ctime_ns), status.st_uid)


def _open_inbox(path: Path, find_problem: Callable[[PathStep], str]) -> tuple[int, PathStep]:
    """Return a folder's descriptor and status. Raises UnsafeError if `find_problem` returns a text."""
    path_descriptor = open_folder(path)
    try:
        step = PathStep(path, os.fstat(path_descriptor))
        problem = find_problem(step)
        if problem:
            raise UnsafeError(problem)
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=path_descriptor), step
    finally:
        os.close(path_descriptor)


def _public_folder_problem(step: PathStep) -> str:
    if not step.is_ours:
        return f"{step.path} belongs to user {step.status.st_uid}: chown root {step.path}"
    if step.is_shared(groups=()) and not step.is_sticky:
        return f"in {step.path}, users can replace each other's files: chmod +t {step.path}"
    return ""


def _private_folder_problem(step: PathStep, owners: tuple[int, ...]) -> str:
    owner = step.status.st_uid
    if owners and owner not in owners:
        return f"{step.path} belongs to user {owner}: chown root {step.path}"
    if step.is_shared():
        return f"{step.path} can be written by others: chmod go-w {step.path}"
    return ""
