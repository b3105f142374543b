"""The daemon's own folders (state, locks, runtime): nobody else can write there, nor lead what we do there elsewhere."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from pathlib import Path
from types import TracebackType
from typing import final

from telemetry_daemon.guarded import below, reading
from telemetry_daemon.guarded.sockets import new_socket
from telemetry_daemon.guarded.way import ROOT, UnsafeError, reach, reach_own

# Of our folders; those below them that hold what nobody else may know are made narrower.
FOLDER_MODE = 0o755


@final
class OwnFolder:
    """A folder of ours, held open. What root makes in the service user's folder is given to that user.

    Whatever it does raises OSError; UnsafeError, which is one, says who else could write there and what to do.
    """

    def __init__(self, descriptor: int, owner: tuple[int, int]) -> None:
        self._descriptor = descriptor
        self._owner = owner

    @classmethod
    def at(cls, path: Path) -> OwnFolder:
        """The folder that is there."""
        descriptor, status = reach_own(path)
        return cls(descriptor, (status.st_uid, status.st_gid))

    @classmethod
    def made(cls, path: Path, mode: int = FOLDER_MODE) -> OwnFolder:
        """The folder, made with those above it where it is not there."""
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
        """Put a file with the content under the name, in one step and for good."""
        with below.replacing(self._descriptor, name) as descriptor:
            below.write(descriptor, content)
            self._give(descriptor)
            os.fsync(descriptor)  # else a power cut may leave an empty file under the name

    def lock_file(self, name: str) -> int:
        """A descriptor of a file to lock, made if it is not there; it is the caller's to close."""
        try:
            descriptor = below.create(self._descriptor, name, os.O_RDWR)
        except FileExistsError:  # as nearly always: it stays for the next one
            return self.existing_lock_file(name)
        self._give(descriptor)
        return descriptor

    def existing_lock_file(self, name: str) -> int:
        """The same of one that is there; what could be a file of elsewhere is not taken."""
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        descriptor = os.open(name, flags, dir_fd=self._descriptor)
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_nlink <= 1:
            return descriptor
        os.close(descriptor)
        raise UnsafeError(f"{name} is no file of its own; remove it")

    def has(self, name: str, descriptor: int) -> bool:
        """Whether the open file has the name still."""
        try:
            there = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:  # removed meanwhile, so it is another's
            return False
        return os.path.samestat(there, os.fstat(descriptor))

    def remove(self, name: str) -> None:
        """Take away what has the name, be it there or not."""
        below.remove(self._descriptor, name)

    def bound(self, name: str) -> socket.socket:
        """A Unix socket of that name for our user alone; what has the name is replaced."""
        self.remove(name)
        with new_socket() as listener:
            os.fchmod(
                listener.fileno(), 0o600
            )  # the kernel gives the file this mode (unix(7)); umask is every thread's
            listener.bind(f"/proc/self/fd/{self._descriptor}/{name}")  # bind() takes no folder's descriptor
        return listener

    def _give(self, descriptor: int) -> None:
        """Where root made a file in the service user's folder, the daemon must be able to use it."""
        if self._owner[0] != os.geteuid():
            os.fchown(descriptor, *self._owner)


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
    """Give what root just made to the owner of the folder above, unless something else has the name by now."""
    owner = os.fstat(above)
    made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    try:
        if os.fstat(made).st_uid == ROOT != owner.st_uid:
            os.fchown(made, owner.st_uid, owner.st_gid)
    finally:
        os.close(made)
