"""Reads a library or files in a worker process, so that a hung driver blocks only that process. A missing library is tried again once its folders change."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec

from telemetry_daemon.processes.driver_files import has_folder
from telemetry_daemon.processes.worker import Worker, WorkerError
from telemetry_daemon.readers.base import Begun, Targets
from telemetry_parsers.codec.plain import CodecError
from telemetry_parsers.codec.worker_wire import Read, Readout, checked_readout
from telemetry_parsers.model import Capture, Failure, Files, Library, Plain, Poll, Request

# Device, inode and change time of a path; None if the path does not exist.
Mark = tuple[int, int, int] | None

# The default folders of ld.so, with and without Debian's multiarch names; those of musl; and the cache of all other
# folders, which ldconfig writes.
_OF_MACHINE = f"{os.uname().machine}-linux-gnu"
_PLACES = (
    "/etc/ld.so.cache",
    *("/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib", f"/lib/{_OF_MACHINE}", f"/usr/lib/{_OF_MACHINE}"),
)
# If a library was replaced or lost its driver, the worker is restarted, but not at every poll.
_RENEWAL_SECONDS = 30.0
# A missing library is looked for once a minute, not once a minute by every poll of its source.
_LOOK_AGAIN_SECONDS = 55.0
# If only the dynamic loader decides, a process is started only after a folder that it searches has changed.
_OURS = "telemetry_daemon.readers."
_TRY_AGAIN_SECONDS = 1800.0


def marks(environment: Mapping[str, str]) -> tuple[Mark, ...]:
    """Return marks that change when the library or its binding is installed where a Python with this environment finds it."""
    listed = environment.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":")
    # A Python with a prefix of its prefixes, such as conda's, also has libraries there.
    prefixes = (f"{sys.base_prefix}/lib", f"{sys.prefix}/lib")
    return tuple(map(_mark, (*filter(None, listed), *_PLACES, *prefixes, *sys.path)))


def _mark(path: str) -> Mark:
    try:
        status = os.stat(path)  # noqa: PTH116  # a path is a text here
    except (OSError, ValueError):  # a missing path is a mark, too
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns


class WorkerReader:
    """The reader of one source.

    Closing the reader stops the worker, but another reader may use the worker again. Files are read below `root`, which
    differs from / in a container. `decode_readout` ingests the worker's answer and checks it as strictly as the code in the
    worker requires.
    """

    def __init__(
        self,
        source: str,
        worker: Worker,
        root: str = "/",
        clock: Callable[[], float] = time.monotonic,
        decode_readout: Callable[[Plain], Readout] = checked_readout,
    ) -> None:
        self._source = source
        self._worker = worker
        self._root = root
        self._clock = clock
        self._readout_in = decode_readout
        self._closed = threading.Event()
        self._missing: Failure | None = None
        self._next_check_at = self._next_retry_at = 0.0
        self._marks: tuple[Mark, ...] = ()

    def read(self, poll: Poll, targets: Targets) -> Capture:  # noqa: ARG002  # a library knows its devices
        """Return the output of the library or the files, or the failure that prevented it."""
        begun, cpu_before = Begun(), self._worker.cpu_seconds
        readout = self._answer(poll)
        cpu_seconds = self._worker.cpu_seconds - cpu_before
        return begun.capture(self._source, poll, readout.outputs, readout.failure, cpu_seconds)

    def capture_if_missing(self, poll: Poll) -> Capture | None:
        """Return the failure if the library or files are missing, or None if only the worker can find out."""
        begun = Begun()
        refusal = self._refusal(poll)
        if refusal is None or refusal.state != "missing":
            return None
        return begun.capture(self._source, poll, (), refusal, 0.0)

    def close(self) -> None:
        """Stop the worker, within a second."""
        if not self._closed.is_set():
            self._closed.set()
            self._worker.stop()

    def left_behind(self) -> tuple[int, ...]:
        """Return the worker's PID if the worker did not exit."""
        pid = self._worker.stuck_pid
        return () if pid is None else (pid,)

    def _answer(self, poll: Poll) -> Readout:
        refusal = self._refusal(poll)
        if refusal is not None:
            return Readout(failure=refusal)
        target = self._target(poll.request)
        if self._worker.pid is None:
            self._marks = marks(self._worker.environment)  # taken before the look, so that a later change is noticed
        what = Read(poll.request, target, self._root)
        try:
            readout = self._readout_in(self._worker.call(what, poll.deadline, self._closed.is_set))
        except WorkerError as error:
            return Readout(failure=self._closed_failure() if self._closed.is_set() else error.failure)
        except CodecError as error:
            text = f"{self._source}: what was read is no output: {error}"
            return Readout(failure=Failure("failed", "internal", text))
        if readout.failure is not None:
            self._restart_after(readout.failure)
        return readout

    def _closed_failure(self) -> Failure:
        """A closed or released reader is not a fault of the source."""
        return Failure("disabled", None, f"{self._source}: the reader is closed")

    def _refusal(self, poll: Poll) -> Failure | None:
        """Return why the worker is not used, or None if it is."""
        request = poll.request
        if self._closed.is_set():
            return self._closed_failure()
        if isinstance(request, Library) and request.reader not in self._worker.readers:
            return Failure("missing", None, f"no library reader named {request.reader!r} is installed")
        if (
            self._worker.pid is None
            and isinstance(request, Library)
            and request.module
            and not find_spec(request.module)
        ):
            # A new process could only report the same; a running process has the module.
            text = f"the Python module {request.module} is not installed: pip install '{request.package}'"
            return Failure("missing", None, text)
        if isinstance(request, Library) and self._missing is not None and not self._may_have_come(request):
            return self._missing
        if isinstance(request, Files) and not has_folder(request, self._root):
            # A node without such cards needs no process for them.
            return Failure("missing", None, f"{self._source}: none of the folders to read is there")
        return None

    def _may_have_come(self, request: Library) -> bool:
        """Return whether the missing library is due for another try that may succeed."""
        now = self._clock()
        if now < self._next_check_at:
            return False
        by_loader_alone = self._target(request).startswith(_OURS)
        return not by_loader_alone or now >= self._next_retry_at or marks(self._worker.environment) != self._marks

    def _target(self, request: Request) -> str:
        return self._worker.readers[request.reader] if isinstance(request, Library) else ""

    def _restart_after(self, failure: Failure) -> None:
        """Restart the worker, so that a library that has been installed or restored is found."""
        missing = failure.state == "missing"
        if missing:
            now = self._clock()
            self._missing = failure
            self._next_check_at, self._next_retry_at = now + _LOOK_AGAIN_SECONDS, now + _TRY_AGAIN_SECONDS
        lost = failure.reason in ("library_mismatch", "driver_gone")
        if missing or (lost and self._worker.running_seconds >= _RENEWAL_SECONDS):
            self._worker.stop()
