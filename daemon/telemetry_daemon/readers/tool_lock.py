"""One process per tool on this node: the running child holds the tool's lock file and is named in it."""

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
# Errors that say "not in this folder"; any other (no descriptors, no memory) is no reason to run without a lock.
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
    """Write down in the locked file who has it: our process, the tool's as soon as it runs, and for which source."""
    with contextlib.suppress(OSError):  # on a full disk the lock holds as well without a name
        text = f"{os.getpid()} {tool_pid} {source}\n".encode()
        os.pwrite(descriptor, text.ljust(_LONGEST_NOTE)[:_LONGEST_NOTE], 0)


def words(descriptor: int) -> str:
    """Who has the locked file and for how long, and what the reader of this can do."""
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
    """The command line of a living process. None if it has ended, or its number now belongs to another program."""
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:  # it has ended
        return None
    names = [Path(argument).name for argument in arguments]
    start = names.index("telemetry") if "telemetry" in names else 0  # behind the interpreter
    line = shlex.join([names[start], *filter(None, arguments[start + 1 :])])
    return line[:_LONGEST_COMMAND] if "telemetry" in line else None


class ToolBusyError(Exception):
    """Somebody else ran the tool until our time was over."""


class HeldLock:
    """A lock that is held; `descriptor` is for the child to inherit, None where no folder could be used."""

    def __init__(self, descriptor: int | None, source: str) -> None:
        self.descriptor = descriptor
        self._source = source
        self.runs(0)

    def runs(self, tool_pid: int) -> None:
        """Note the tool's process, for whoever waits for the lock."""
        if self.descriptor is not None:
            note(self.descriptor, self._source, tool_pid)

    def release(self) -> None:
        """Give the lock back, even if a child still has a copy of the descriptor."""
        if self.descriptor is not None:
            with contextlib.suppress(OSError):  # a lock that cannot be undone ends with its descriptor
                fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        self.leave()

    def leave(self) -> None:
        """Forget the lock: it stays held for as long as the child lives."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


class ToolLocks:
    """A source's locks of its tools in one folder, or in the user's own where that folder is not ours to write."""

    def __init__(self, folder: Path, source: str) -> None:
        self._folders = (folder, own_folder())
        self._source = source
        self._warned = False

    def take(self, tool: str, until: float, closing: threading.Event) -> HeldLock:
        """The tool's lock, waited for up to the monotonic time `until`; ToolBusyError if somebody else keeps it."""
        while True:
            try:
                return self._try(tool)
            except BlockingIOError:
                left = until - time.monotonic()
            if left <= 0 or closing.wait(min(_PAUSE_SECONDS, left)):
                raise ToolBusyError(f"{tool}: {BUSY}: {self._holder(tool)}")

    def _holder(self, tool: str) -> str:
        """Who has the lock, in words."""
        for folder in self._folders:
            with contextlib.suppress(OSError), OwnFolder.at(folder) as own:  # not in this folder
                descriptor = own.existing_lock_file(_file_name(tool))
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
                "cannot keep tool locks in %s (%s): other programs of this kind may run a tool at the same time",
                folder,
                error.strerror,
            )


def own_folder() -> Path:
    """Where a user without access to the daemon's folder keeps locks."""
    return Path(os.environ.get("TMPDIR") or "/tmp") / f"telemetry-{os.geteuid()}"  # noqa: S108  # nobody else's: see OwnFolder


def is_busy(failure: Failure | None) -> bool:
    """Whether a read failed only because somebody else runs the tool: the daemon then has its readings."""
    return failure is not None and failure.state == "stuck" and BUSY in failure.text


def _file_name(tool: str) -> str:
    return Path(tool).name + ".lock"


def _lock(folder: Path, tool: str) -> int:
    """The locked file, or BlockingIOError; repeated if the file was removed between opening and locking it."""
    name = _file_name(tool)
    with OwnFolder.made(folder, _FOLDER_MODE) as own:
        while True:
            descriptor = own.lock_file(name)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if own.has(name, descriptor):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
