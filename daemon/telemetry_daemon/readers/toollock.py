"""One process per tool on this node: the running child holds the lock file of its tool."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import threading
import time
from pathlib import Path

from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_daemon.readers import lock_holder
from telemetry_parsers.model import Failure
from telemetry_parsers.states import BUSY

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
            lock_holder.note(self.descriptor, self._source, tool_pid)

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
                    return lock_holder.words(descriptor)
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
