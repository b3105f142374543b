"""Opens files and sockets that the user names. No other user can redirect their paths."""

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
    """Atomically replace a file or link. Raises OSError."""
    with _open_folder_of(path) as folder, folders.replacement(folder, path.name) as descriptor:
        folders.write(descriptor, content)
        os.fchmod(descriptor, mode)


def write_file(path: Path, content: bytes) -> None:
    """Atomically write a regular file with mode 0600. Raises OSError."""
    with _open_folder_of(path) as folder:
        status = folders.status_of(folder, path.name)
        if status is not None and not stat.S_ISREG(status.st_mode):
            raise NotAFileError(status.st_mode, str(path))
        with folders.replacement(folder, path.name) as descriptor:
            folders.write(descriptor, content)
            os.fsync(descriptor)  # otherwise a power cut may leave an empty file


def remove(path: Path) -> None:
    """Remove a file or link if it exists. Raises OSError."""
    with _open_folder_of(path) as folder:
        folders.remove(folder, path.name)


def open_stream(path: Path) -> int | None:
    """Open a device or pipe for writing. Return None if the path is a regular file or missing."""
    match = _STREAM_PATH.match(str(path))
    if match is not None:
        return os.dup(_STREAMS[match[1]] if match[1] else int(match[2] or match[3]))
    with _open_folder_of(path) as folder:
        status = folders.status_of(folder, path.name)
        return None if status is None or stat.S_ISREG(status.st_mode) else _open_device(folder, path.name, status)


def open_existing(path: Path) -> int | None:
    """Open a regular file for reading. Return None if there is none."""
    with _open_folder_of(path) as folder:
        status = folders.status_of(folder, path.name)
        if status is None or not stat.S_ISREG(status.st_mode):
            return None
        return os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)


@final
class FileNameLock:
    """A lock for a file name. Raises BlockingIOError if another process holds the lock."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with _open_folder_of(path) as folder:
            if not os.access(".", os.W_OK | os.X_OK, dir_fd=folder, effective_ids=True):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            self._descriptor, self._is_placeholder = _create_or_open(folder, path.name)
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._check_not_replaced(folder)
            except OSError:
                os.close(self._descriptor)
                raise

    def first_bytes(self, max_bytes: int) -> bytes:
        """Return up to `max_bytes` from the start of the file."""
        return os.pread(self._descriptor, max_bytes, 0)

    def replace_and_open(self, content: bytes) -> int:
        """Atomically replace the file, and return a descriptor to append to it."""
        with _open_folder_of(self._path) as folder:
            self._check_not_replaced(folder)
            with folders.replacement(folder, self._path.name) as descriptor:
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
                with _open_folder_of(self._path) as folder:
                    if folders.is_named(folder, self._path.name, descriptor):
                        folders.remove(folder, self._path.name)
        finally:
            os.close(descriptor)

    def _check_not_replaced(self, folder: int) -> None:
        if not folders.is_named(folder, self._path.name, self._descriptor):
            raise BlockingIOError(errno.EAGAIN, "another process replaced the file in the meantime", str(self._path))


@contextlib.contextmanager
def _open_folder_of(path: Path) -> Iterator[int]:
    if not path.name or path.name == "..":
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    folder = open_folder(path.parent)
    try:
        yield folder
    finally:
        os.close(folder)


def _create_or_open(folder: int, name: str) -> tuple[int, bool]:
    """Return a descriptor of the file, and whether this call created it."""
    try:
        return folders.create(folder, name, os.O_RDWR), True
    except FileExistsError:  # the file existed before
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder), False


def _open_device(folder: int, name: str, status: os.stat_result) -> int:
    """Open a device, or a pipe of this user, for writing."""
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, "it is a link, which is not followed", name)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    is_own_pipe = stat.S_ISFIFO(status.st_mode) and status.st_uid in (ROOT, os.geteuid())
    if not (is_own_pipe or stat.S_ISCHR(status.st_mode)):
        raise UnsafeError("it is neither a regular file nor a device nor a pipe of this user")
    descriptor = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=folder)
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
    """Return a connection to the Unix socket at the path. Raises OSError."""
    with _open_folder_of(path) as folder, contextlib.ExitStack() as on_exit:
        socket_descriptor = os.open(path.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
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
    """Return a socket bound to the path, replacing an unused socket. Raises OSError."""
    with _open_folder_of(path) as folder:
        _remove_unused(folder, path)
        with new_socket() as listener:
            listener.bind(str(path))  # `ss` shows this name; bind() does not follow links
        return listener


def _remove_unused(folder: int, path: Path) -> None:
    status = folders.status_of(folder, path.name)
    if status is None:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise FileExistsError(errno.EEXIST, "the existing file is not a socket", str(path))
    try:
        connect(path, _PROBE_SECONDS).close()
    except ConnectionRefusedError:  # left by a daemon that was killed
        folders.remove(folder, path.name)
    else:
        raise OSError(errno.EADDRINUSE, "taken")
