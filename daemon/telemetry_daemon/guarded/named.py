"""Opens files and sockets at paths that the user names, so that no other user can redirect them."""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import os
import re
import socket
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import final

from telemetry_daemon.guarded import folders
from telemetry_daemon.guarded.folders import ROOT, UnsafeError, open_folder
from telemetry_daemon.guarded.reading import NotAFileError

_STREAM_PATH = re.compile(r"/dev/(?:(stdout|stderr)|fd/([0-9]+))\Z|/proc/self/fd/([0-9]+)\Z")
_STREAMS = {"stdout": 1, "stderr": 2}
_PROBE_SECONDS = 1.0
_CREDENTIALS = struct.Struct("3i")
# Python does not define this option (socket(7)).
_SO_PEERGROUPS = 59
_MAX_GROUPS = 256  # Python limits a socket option to 1,024 bytes


def replace(path: Path, content: bytes, mode: int) -> None:
    """Atomically replace a file or link. Raise OSError if the new file cannot be written."""
    with _open_parent(path) as parent, folders.replacement(parent, path.name) as descriptor:
        folders.write(descriptor, content)
        os.fchmod(descriptor, mode)


def write_file(path: Path, content: bytes) -> None:
    """Atomically write a file with mode 0600. Raise OSError if this fails, or if the path is not a regular file."""
    with _open_parent(path) as parent:
        status = folders.status_of(parent, path.name)
        if status is not None and not stat.S_ISREG(status.st_mode):
            raise NotAFileError(status.st_mode, str(path))
        with folders.replacement(parent, path.name) as descriptor:
            folders.write(descriptor, content)
            os.fsync(descriptor)  # otherwise a power cut may leave an empty file


def remove(path: Path) -> None:
    """Remove a file or link if it exists. Raise OSError if it cannot be removed."""
    with _open_parent(path) as parent:
        folders.remove(parent, path.name)


def open_stream(path: Path) -> int | None:
    """Open a device or pipe for writing. Return None if the path is a regular file or missing."""
    match = _STREAM_PATH.match(str(path))
    if match is not None:
        return os.dup(_STREAMS[match[1]] if match[1] else int(match[2] or match[3]))
    with _open_parent(path) as parent:
        status = folders.status_of(parent, path.name)
        return None if status is None or stat.S_ISREG(status.st_mode) else _open_device(parent, path.name, status)


def open_existing(path: Path) -> int | None:
    """Open a regular file for reading. Return None if the path is missing or not a regular file."""
    with _open_parent(path) as parent:
        status = folders.status_of(parent, path.name)
        if status is None or not stat.S_ISREG(status.st_mode):
            return None
        return os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)


@final
class FileNameLock:
    """A lock for a file name. The constructor raises BlockingIOError if another process holds the lock."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with _open_parent(path) as parent:
            if not os.access(".", os.W_OK | os.X_OK, dir_fd=parent, effective_ids=True):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            self._descriptor, self._is_placeholder = _create_or_open(parent, path.name)
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._check_not_replaced(parent)
            except OSError:
                os.close(self._descriptor)
                raise

    def first_bytes(self, max_bytes: int) -> bytes:
        """Return up to `max_bytes` from the start of the file."""
        return os.pread(self._descriptor, max_bytes, 0)

    def replace_and_open(self, content: bytes) -> int:
        """Atomically replace the file, and return a descriptor to append to it."""
        with _open_parent(self._path) as parent:
            self._check_not_replaced(parent)
            with folders.replacement(parent, self._path.name) as descriptor:
                folders.write(descriptor, content)
                duplicate = os.dup(descriptor)  # keeps the new file locked
        self._is_placeholder = False
        return duplicate

    def close(self) -> None:
        """Unlock the name, and remove the file if nothing was written."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        try:
            if self._is_placeholder:
                with _open_parent(self._path) as parent:
                    if folders.is_named(parent, self._path.name, descriptor):
                        folders.remove(parent, self._path.name)
        finally:
            os.close(descriptor)

    def _check_not_replaced(self, parent: int) -> None:
        if not folders.is_named(parent, self._path.name, self._descriptor):
            raise BlockingIOError(errno.EAGAIN, "another process replaced the file in the meantime", str(self._path))


@contextlib.contextmanager
def _open_parent(path: Path) -> Iterator[int]:
    if not path.name or path.name == "..":
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    parent = open_folder(path.parent)
    try:
        yield parent
    finally:
        os.close(parent)


def _create_or_open(parent: int, name: str) -> tuple[int, bool]:
    """Return a descriptor of the file, and whether this call created it."""
    try:
        return folders.create(parent, name, os.O_RDWR), True
    except FileExistsError:  # the file existed before
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent), False


def _open_device(parent: int, name: str, status: os.stat_result) -> int:
    """Open a device, or a pipe of this user, for writing."""
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, "it is a link, which is not followed", name)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    is_own_pipe = stat.S_ISFIFO(status.st_mode) and status.st_uid in (ROOT, os.geteuid())
    if not (is_own_pipe or stat.S_ISCHR(status.st_mode)):
        raise UnsafeError("it is neither a regular file nor a device nor a pipe of this user")
    descriptor = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=parent)
    if os.path.samestat(os.fstat(descriptor), status):
        return descriptor
    os.close(descriptor)
    raise UnsafeError("another process replaced the file in the meantime")


@contextlib.contextmanager
def new_socket() -> Iterator[socket.socket]:
    """Yield a new Unix socket. Close it only if the block raises an exception."""
    unix_socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        yield unix_socket
    except BaseException:
        unix_socket.close()
        raise


def connect(path: Path, timeout_seconds: float) -> socket.socket:
    """Connect to the Unix socket at the path. Raise OSError if it is missing, not a socket, or without a listener."""
    with _open_parent(path) as parent, contextlib.ExitStack() as on_exit:
        socket_descriptor = os.open(path.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        on_exit.callback(os.close, socket_descriptor)
        if not stat.S_ISSOCK(os.fstat(socket_descriptor).st_mode):
            raise UnsafeError(f"{path} is not a socket; remove it, and restart the daemon")
        with new_socket() as connection:
            connection.settimeout(timeout_seconds)
            connection.connect(f"/proc/self/fd/{socket_descriptor}")
        return connection


def has_listener(path: Path) -> bool:
    """Return whether a process listens on the socket."""
    try:
        connect(path, _PROBE_SECONDS).close()
    except OSError:  # no process listens on this path
        return False
    return True


def is_own_user_or_root(connection: socket.socket) -> bool:
    """Return whether the peer runs as this user or as root."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(credentials)
    return uid in (0, os.geteuid())


def is_own_user_or_group(connection: socket.socket) -> bool:
    """Return whether the peer runs as this user or group, or as root."""
    if is_own_user_or_root(connection):
        return True
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    groups = array.array("I", [_CREDENTIALS.unpack(credentials)[2]])
    with contextlib.suppress(OSError):  # the peer has too many groups, or Linux is older than 4.13
        groups.frombytes(connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _MAX_GROUPS * groups.itemsize))
    return os.getegid() in groups


def bind_unix_socket(path: Path) -> socket.socket:
    """Return a socket bound to the path, replacing an unused socket. Raise OSError if the path is in use."""
    with _open_parent(path) as parent:
        _remove_unused(parent, path)
        with new_socket() as listener:
            listener.bind(str(path))  # `ss` shows this name; bind() does not follow links
        return listener


def _remove_unused(parent: int, path: Path) -> None:
    status = folders.status_of(parent, path.name)
    if status is None:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise FileExistsError(errno.EEXIST, "the existing file is not a socket", str(path))
    try:
        connect(path, _PROBE_SECONDS).close()
    except ConnectionRefusedError:  # left by a daemon that was killed
        folders.remove(parent, path.name)
    else:
        raise OSError(errno.EADDRINUSE, "taken")
