"""Locks that let a tool run only once at a time on a node."""

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

_NOTE_PATTERN = re.compile(r"([0-9]{1,10}) ([0-9]{1,10}) ([a-z0-9-]{1,64})\n\Z")
_MAX_NOTE_LENGTH = 100
_MAX_COMMAND_LENGTH = 60
_SKIPPED_TEXT = "this poll is skipped; the next poll runs as scheduled"
_PAUSE_SECONDS = 0.05
_FOLDER_MODE = 0o700
# These errors show that a folder cannot be used for locks.
_UNUSABLE_FOLDER_ERRNOS = frozenset(
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


def write_holder_note(descriptor: int, source: str, tool_pid: int = 0) -> None:
    """Write the PIDs of this process and of the tool to the lock file. Before the tool starts, `tool_pid` is 0."""
    with contextlib.suppress(OSError):  # the lock also works without this note
        text = f"{os.getpid()} {tool_pid} {source}\n".encode()
        os.pwrite(descriptor, text.ljust(_MAX_NOTE_LENGTH)[:_MAX_NOTE_LENGTH], 0)


def holder_text(descriptor: int) -> str:
    """Return a description of the process that holds the lock."""
    note = _NOTE_PATTERN.match(os.pread(descriptor, _MAX_NOTE_LENGTH, 0).rstrip(b" ").decode(errors="replace"))
    if note is None:
        return _SKIPPED_TEXT
    holder_pid, tool_pid, source = int(note[1]), int(note[2]), note[3]
    age_text = f"for {max(0.0, time.time() - os.fstat(descriptor).st_mtime):.0f} s"
    process_text = f"process {tool_pid}, {age_text}" if tool_pid else age_text
    if holder_pid == os.getpid():
        return f"this daemon's source {source} ({process_text}); {_SKIPPED_TEXT}"
    command_text = _telemetry_command(holder_pid)
    if command_text is not None:
        return f"{command_text} (process {holder_pid}), source {source} ({process_text}); {_SKIPPED_TEXT}"
    child_text = f"process {tool_pid}" if tool_pid else "a process"
    return (
        f"{child_text}, started for source {source} by a telemetry process that has exited, has been running "
        f"{age_text}; kill this process; in state D, it exits only after a device reset or a reboot"
    )


def _telemetry_command(pid: int) -> str | None:
    """Return the command line of a telemetry process, or None for other programs."""
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:  # the process has exited
        return None
    names = [Path(argument).name for argument in arguments]
    command_index = names.index("telemetry") if "telemetry" in names else 0  # skip the interpreter
    line = shlex.join([names[command_index], *filter(None, arguments[command_index + 1 :])])
    return line[:_MAX_COMMAND_LENGTH] if "telemetry" in line else None


class ToolBusyError(Exception):
    """Another process held the lock of the tool until the deadline."""


class HeldLock:
    """An acquired lock. Without a usable lock folder, `descriptor` is None."""

    def __init__(self, descriptor: int | None, source: str) -> None:
        self.descriptor = descriptor
        self._source = source
        self.write_holder(0)

    def write_holder(self, tool_pid: int) -> None:
        """Write the PIDs of this process and of the tool to the lock file."""
        if self.descriptor is not None:
            write_holder_note(self.descriptor, self._source, tool_pid)

    def release(self) -> None:
        """Release the lock, even if a child process has inherited the descriptor."""
        if self.descriptor is not None:
            with contextlib.suppress(OSError):  # closing the descriptor releases the lock
                fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        self.close()

    def close(self) -> None:
        """Close the lock file. A running child that inherited the descriptor keeps the lock."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


class ToolLocks:
    """The locks of a source's tools."""

    def __init__(self, folder: Path, source: str) -> None:
        self._folders = (folder, user_lock_folder())
        self._source = source
        self._has_warned = False

    def acquire(self, tool: str, deadline: float, closing: threading.Event) -> HeldLock:
        """Wait for a tool's lock. Raises ToolBusyError at the monotonic time `deadline`, or if `closing` is set."""
        while True:
            try:
                return self._try_lock(tool)
            except BlockingIOError:
                remaining = deadline - time.monotonic()
            if remaining <= 0 or closing.wait(min(_PAUSE_SECONDS, remaining)):
                raise ToolBusyError(f"{tool}: {BUSY}: {self._holder_text(tool)}")

    def _holder_text(self, tool: str) -> str:
        for folder in self._folders:
            with contextlib.suppress(OSError), OwnFolder.at(folder) as lock_folder:  # the folder contains no lock
                descriptor = lock_folder.open_existing_lock_file(_file_name(tool))
                try:
                    return holder_text(descriptor)
                finally:
                    os.close(descriptor)
        return f"{self._folders[0] / _file_name(tool)} is locked"

    def _try_lock(self, tool: str) -> HeldLock:
        locks = (self._try_lock_in(folder, tool) for folder in self._folders)
        return next((lock for lock in locks if lock is not None), HeldLock(None, self._source))

    def _try_lock_in(self, folder: Path, tool: str) -> HeldLock | None:
        try:
            return HeldLock(_open_and_lock(folder, tool), self._source)
        except BlockingIOError:
            raise
        except OSError as error:
            if error.errno not in _UNUSABLE_FOLDER_ERRNOS:
                raise
            self._warn_once(folder, error)
            return None

    def _warn_once(self, folder: Path, error: OSError) -> None:
        if not self._has_warned:
            self._has_warned = True
            _log.warning(
                "cannot create tool locks in %s (%s): other telemetry processes may run the same tool at the same time",
                folder,
                error.strerror,
            )


def user_lock_folder() -> Path:
    """Return the lock folder of a user who cannot write to the daemon's folder."""
    return Path(os.environ.get("TMPDIR") or "/tmp") / f"telemetry-{os.geteuid()}"  # noqa: S108  # a private folder: see OwnFolder


def is_busy(failure: Failure | None) -> bool:
    """Return whether a read failed because another process was running the tool."""
    return failure is not None and failure.state == "stuck" and BUSY in failure.text


def _file_name(tool: str) -> str:
    return Path(tool).name + ".lock"


def _open_and_lock(folder: Path, tool: str) -> int:
    """Lock the tool's file, and return its descriptor. Raise BlockingIOError if another process holds the lock."""
    name = _file_name(tool)
    with OwnFolder.create_at(folder, _FOLDER_MODE) as own_folder:
        while True:
            descriptor = own_folder.open_lock_file(name)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if own_folder.is_named(name, descriptor):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
