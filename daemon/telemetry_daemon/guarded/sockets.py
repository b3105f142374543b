"""Unix sockets at a path that the user named: no link is followed, and only a dead socket is replaced."""

from __future__ import annotations

import array
import contextlib
import errno
import os
import socket
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

from telemetry_daemon.guarded import below
from telemetry_daemon.guarded.way import UnsafeError, reach

_PROBE_SECONDS = 1.0
_CREDENTIALS = struct.Struct("3i")
# Python has no name for it (socket(7), Linux 4.13).
_SO_PEERGROUPS = 59
_MOST_GROUPS = 256  # Python reads options of at most 1,024 bytes


@contextlib.contextmanager
def new_socket() -> Iterator[socket.socket]:
    """A new Unix socket, which stays open after the block; an error in the block closes it."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        yield made
    except BaseException:
        made.close()
        raise


def connected(path: Path, timeout_seconds: float) -> socket.socket:
    """A connection to the Unix socket at the path; a link is refused. Raises OSError."""
    with contextlib.ExitStack() as undo:
        folder = reach(path.parent)
        undo.callback(os.close, folder)
        opened = os.open(path.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        undo.callback(os.close, opened)
        if not stat.S_ISSOCK(os.fstat(opened).st_mode):
            raise UnsafeError(f"{path} is no socket; remove it, and start its daemon anew")
        with new_socket() as connection:
            connection.settimeout(timeout_seconds)
            connection.connect(f"/proc/self/fd/{opened}")
        return connection


def answers(path: Path) -> bool:
    """Whether somebody listens there; a socket that nobody listens on is a dead daemon's."""
    try:
        connected(path, _PROBE_SECONDS).close()
    except OSError:  # no socket, or nobody behind it
        return False
    return True


def is_own_user(connection: socket.socket) -> bool:
    """Whether the process at the other end belongs to our user or to root."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(credentials)
    return uid in (0, os.geteuid())


def is_own_user_or_group(connection: socket.socket) -> bool:
    """Return whether the process at the other end belongs to our user, to root or to our group."""
    if is_own_user(connection):
        return True
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    groups = array.array("I", [_CREDENTIALS.unpack(credentials)[2]])
    with contextlib.suppress(OSError):  # more groups than Python can ask for, or Linux before 4.13
        groups.frombytes(connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _MOST_GROUPS * groups.itemsize))
    return os.getegid() in groups


def bound(path: Path) -> socket.socket:
    """A socket at the path; one that nobody listens on is replaced. Raises OSError: FileExistsError if it is no socket."""
    with contextlib.ExitStack() as undo:
        folder = reach(path.parent)
        undo.callback(os.close, folder)
        _clear(folder, path)
        with new_socket() as listener:
            listener.bind(str(path))  # the name by which `ss` shows it; a link in its place is not followed
        return listener


def _clear(folder: int, path: Path) -> None:
    try:
        mode = os.stat(path.name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:  # nothing in the way
        return
    if not stat.S_ISSOCK(mode):
        raise FileExistsError(errno.EEXIST, "a file that is not a socket is there", str(path))
    try:
        connected(path, _PROBE_SECONDS).close()
    except ConnectionRefusedError:  # nobody listens: it was left behind
        below.remove(folder, path.name)
    else:
        raise OSError(errno.EADDRINUSE, "taken")
