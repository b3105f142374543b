"""The daemon's own folders (state, locks, runtime): nobody else can write there or make us write elsewhere."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from pathlib import Path
from types import TracebackType
from typing import final

from telemetry_daemon.guarded import below, reading
from telemetry_daemon.guarded.sockets import answers, new_socket
from telemetry_daemon.guarded.way import ROOT, UnsafeError, reach, reach_own

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        with below.replacing(self._descriptor, name) as descriptor:
            below.write(descriptor, content)
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
            below.append(descriptor, content)

    def hand_over(self, name: str, content: bytes) -> None:
        """Put a file with this content under the name, in one step, for the folder's group to read."""
        with below.replacing(self._descriptor, name) as descriptor:
            below.write(descriptor, content)
            os.fchown(descriptor, -1, self._owner[1])
            os.fchmod(descriptor, 0o640)

    def lend(self, group: int) -> None:
        """Give the folder to this group, which can read what is handed over."""
        folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._descriptor)
        try:
            os.fchown(folder, -1, group)
        finally:
            os.close(folder)
        self._owner = (self._owner[0], group)

    @property
    def group(self) -> int:
        """Whose group the folder is."""
        return self._owner[1]

    def changed(self) -> dict[str, float]:
        """When each file in the folder was last written, in seconds of the wall clock."""
        return {name: status.st_mtime for name, status in self._listed().items()}

    def sizes(self) -> dict[str, int]:
        """The size of each regular file in the folder."""
        return {name: status.st_size for name, status in self._listed().items() if stat.S_ISREG(status.st_mode)}

    def _listed(self) -> dict[str, os.stat_result]:
        folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._descriptor)
        found: dict[str, os.stat_result] = {}
        try:
            with os.scandir(folder) as listed:
                for one in listed:
                    with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                        found[one.name] = one.stat(follow_symlinks=False)
        finally:
            os.close(folder)
        return found

    def lock_file(self, name: str) -> int:
        """A descriptor of a file to lock, which is made if it is missing; the caller closes it."""
        try:
            descriptor = below.create(self._descriptor, name, os.O_RDWR)
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
        try:
            status = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:  # removed meanwhile, so it is another's
            return False
        return os.path.samestat(status, os.fstat(descriptor))

    def remove(self, name: str) -> None:
        """Remove what has the name, if there is anything."""
        below.remove(self._descriptor, name)

    def bound(self, name: str, mode: int) -> socket.socket:
        """Return a Unix socket with that name and mode; a file that has the name is replaced."""
        self.remove(name)
        with new_socket() as listener:
            os.fchmod(
                listener.fileno(), 0o600
            )  # the kernel gives the file this mode (unix(7)); umask is every thread's
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
        with contextlib.suppress(FileExistsError):  # somebody else was faster; it is looked at like any other
            os.mkdir(path.name, mode, dir_fd=above)
            if os.geteuid() == ROOT:
                _give_folder(path.name, above)
    finally:
        os.close(above)


def _give_folder(name: str, above: int) -> None:
    """Give the folder that root just made to the owner of the folder above, if it is still that folder."""
    owner = os.fstat(above)
    folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    try:
        if os.fstat(folder).st_uid == ROOT and owner.st_uid != ROOT:
            os.fchown(folder, owner.st_uid, owner.st_gid)
    finally:
        os.close(folder)
