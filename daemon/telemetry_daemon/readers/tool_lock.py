"""Ensures that one process per tool runs on this node: the running child holds the tool's lock file, which names it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import re
import shlex
import threading
import time
from pathlib import Path

from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_parsers.model import Failure
from telemetry_parsers.states import BUSY

_NOTE = re.compile(r"([0-9]{1,10}) ([0-9]{1,10}) ([a-z0-9-]{1,64})\n\Z")
_LONGEST_NOTE = 100
_LONGEST_COMMAND = 60
_ASKED_AGAIN = "this poll is left out and asked again when it is next due"
_PAUSE_SECONDS = 0.05
_FOLDER_MODE = 0o700
# These errors mean "not in this folder". Any other error, such as no descriptors or memory, does not justify running
# without a lock.
_UNUSABLE = frozenset(
    {
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENOSPC,
        errno.EDQUOT,
        errno.ENOLCK,
        errno.EOPNOTSUPP,
    }
)
_log = logging.getLogger(__name__)


def note(descriptor: int, source: str, tool_pid: int = 0) -> None:
    """Write the holder to the locked file: this process, the tool's process once it runs, and the source."""
    with contextlib.suppress(OSError):  # on a full disk the lock still works without a name
        text = f"{os.getpid()} {tool_pid} {source}\n".encode()
        os.pwrite(descriptor, text.ljust(_LONGEST_NOTE)[:_LONGEST_NOTE], 0)


def words(descriptor: int) -> str:
    """Return the holder of the lock and the duration, with a remedy."""
    note = _NOTE.match(os.pread(descriptor, _LONGEST_NOTE, 0).rstrip(b" ").decode(errors="replace"))
    if note is None:
        return _ASKED_AGAIN
    taker, tool, source = int(note[1]), int(note[2]), note[3]
    age = f"for {max(0.0, time.time() - os.fstat(descriptor).st_mtime):.0f} s"
    process = f"process {tool}, {age}" if tool else age
    if taker == os.getpid():
        return f"our own source {source} ({process}); {_ASKED_AGAIN}"
    command = _command(taker)
    if command is not None:
        return f"{command} (process {taker}) for its source {source} ({process}); {_ASKED_AGAIN}"
    left = f"process {tool}" if tool else "a process"
    return (
        f"{left} that an earlier telemetry, which has ended, started {age.removeprefix('for ')} ago for its source {source}; "
        "end it; one in state D ends only when the device is reset or the node rebooted"
    )


def _command(pid: int) -> str | None:
    """Return the command line of a process, or None if the process has exited or the PID belongs to another program."""
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:  # the process has exited
        return None
    names = [Path(argument).name for argument in arguments]
    start = names.index("telemetry") if "telemetry" in names else 0  # the arguments after the interpreter
    line = shlex.join([names[start], *filter(None, arguments[start + 1 :])])
    return line[:_LONGEST_COMMAND] if "telemetry" in line else None


class ToolBusyError(Exception):
    """Another process ran the tool until the deadline."""


class HeldLock:
    """An acquired lock. The child inherits `descriptor`, which is None if no folder could be used."""

    def __init__(self, descriptor: int | None, source: str) -> None:
        self.descriptor = descriptor
        self._source = source
        self.runs(0)

    def runs(self, tool_pid: int) -> None:
        """Note the tool's process for others that wait for the lock."""
        if self.descriptor is not None:
            note(self.descriptor, self._source, tool_pid)

    def release(self) -> None:
        """Release the lock, even if a child still has a copy of the descriptor."""
        if self.descriptor is not None:
            with contextlib.suppress(OSError):  # closing the descriptor releases the lock
                fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        self.leave()

    def leave(self) -> None:
        """Close the lock without releasing it: the child holds it until it exits."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


class ToolLocks:
    """The locks of a source's tools in one folder, or in a folder of the user if that folder is not writable."""

    def __init__(self, folder: Path, source: str) -> None:
        self._folders = (folder, own_folder())
        self._source = source
        self._warned = False

    def take(self, tool: str, until: float, closing: threading.Event) -> HeldLock:
        """Return the tool's lock after waiting up to the monotonic time `until`. Raise ToolBusyError if another process keeps it."""
        while True:
            try:
                return self._try(tool)
            except BlockingIOError:
                left = until - time.monotonic()
            if left <= 0 or closing.wait(min(_PAUSE_SECONDS, left)):
                raise ToolBusyError(f"{tool}: {BUSY}: {self._holder(tool)}")

    def _holder(self, tool: str) -> str:
        for folder in self._folders:
            with contextlib.suppress(OSError), OwnFolder.at(folder) as opened:  # not in this folder
                descriptor = opened.existing_lock_file(_file_name(tool))
                try:
                    return words(descriptor)
                finally:
                    os.close(descriptor)
        return f"{self._folders[0] / _file_name(tool)} is locked"

    def _try(self, tool: str) -> HeldLock:
        held = (self._try_in(folder, tool) for folder in self._folders)
        return next((lock for lock in held if lock is not None), HeldLock(None, self._source))

    def _try_in(self, folder: Path, tool: str) -> HeldLock | None:
        try:
            return HeldLock(_lock(folder, tool), self._source)
        except BlockingIOError:
            raise
        except OSError as error:
            if error.errno not in _UNUSABLE:
                raise
            self._warn(folder, error)
            return None

    def _warn(self, folder: Path, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            _log.warning(
                "cannot keep tool locks in %s (%s): other device-telemetry processes may run the same tool at the same time",
                folder,
                error.strerror,
            )


def own_folder() -> Path:
    """Return the lock folder of a user without access to the daemon's folder."""
    return Path(os.environ.get("TMPDIR") or "/tmp") / f"telemetry-{os.geteuid()}"  # noqa: S108  # a private folder: see OwnFolder


def is_busy(failure: Failure | None) -> bool:
    """Return whether a read failed only because another process was running the tool."""
    return failure is not None and failure.state == "stuck" and BUSY in failure.text


def _file_name(tool: str) -> str:
    return Path(tool).name + ".lock"


def _lock(folder: Path, tool: str) -> int:
    """Return the locked file, or raise BlockingIOError. Repeat if the file was removed between opening and locking."""
    name = _file_name(tool)
    with OwnFolder.create_at(folder, _FOLDER_MODE) as opened:
        while True:
            descriptor = opened.lock_file(name)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if opened.is_named(name, descriptor):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
