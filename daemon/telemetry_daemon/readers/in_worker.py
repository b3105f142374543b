"""Calls a library or reads files in a worker process, because the driver may hang."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec

from telemetry_daemon.processes.driver_files import has_folder
from telemetry_daemon.processes.worker import Worker, WorkerError
from telemetry_daemon.readers.base import ReadStart, Targets
from telemetry_parsers.codec.plain import CodecError
from telemetry_parsers.codec.worker_wire import Read, ReadResult, decode_checked_result
from telemetry_parsers.model import Capture, Failure, Files, Library, Plain, Poll, Request

# A path's (device, inode, modification time), or None for a missing path.
FileState = tuple[int, int, int] | None

_MULTIARCH = f"{os.uname().machine}-linux-gnu"
# Installing a library changes one of these paths.
_LIBRARY_PATHS = (
    "/etc/ld.so.cache",
    *("/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib", f"/lib/{_MULTIARCH}", f"/usr/lib/{_MULTIARCH}"),
)
# The minimum time between restarts of the worker because the library was replaced or the driver was unloaded.
_RESTART_SECONDS = 30.0
# A missing library is searched for about once a minute. One search covers all polls of the source.
_CHECK_SECONDS = 55.0
# A built-in reader is tried again after half an hour, or if a library folder has changed.
_BUILT_IN_PREFIX = "telemetry_daemon.readers."
_RETRY_SECONDS = 1800.0


def library_states(environment: Mapping[str, str]) -> tuple[FileState, ...]:
    """Return the states of all folders in which Python finds libraries and modules."""
    folders = environment.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":")
    # A Python with its own prefix, such as conda's, has libraries in that prefix.
    prefixes = (f"{sys.base_prefix}/lib", f"{sys.prefix}/lib")
    return tuple(map(_file_state, (*filter(None, folders), *_LIBRARY_PATHS, *prefixes, *sys.path)))


def _file_state(path: str) -> FileState:
    try:
        status = os.stat(path)  # noqa: PTH116  # paths are strings here
    except (OSError, ValueError):  # the path does not exist
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns


class WorkerReader:
    """Reads a library, or files below `root`, in a worker process."""

    def __init__(
        self,
        source: str,
        worker: Worker,
        root: str = "/",
        clock: Callable[[], float] = time.monotonic,
        decode_result: Callable[[Plain], ReadResult] = decode_checked_result,
    ) -> None:
        self._source = source
        self._worker = worker
        self._root = root
        self._clock = clock
        self._decode_result = decode_result
        self._closed = threading.Event()
        self._missing_failure: Failure | None = None
        self._next_check_at = self._next_retry_at = 0.0
        self._library_states: tuple[FileState, ...] = ()

    def read(self, poll: Poll, targets: Targets) -> Capture:  # noqa: ARG002  # a library lists its devices itself
        """Return a capture with the output or a failure."""
        start, cpu_before = ReadStart(), self._worker.cpu_seconds
        read_result = self._read_in_worker(poll)
        cpu_seconds = self._worker.cpu_seconds - cpu_before
        return start.create_capture(self._source, poll, read_result.outputs, read_result.failure, cpu_seconds)

    def capture_if_missing(self, poll: Poll) -> Capture | None:
        """Return a failed capture if the library or files are known to be missing, else None."""
        start = ReadStart()
        failure = self._failure_before_call(poll)
        if failure is None or failure.state != "missing":
            return None
        return start.create_capture(self._source, poll, (), failure, 0.0)

    def close(self) -> None:
        """Stop the worker within a second."""
        if not self._closed.is_set():
            self._closed.set()
            self._worker.stop()

    def leftover_pids(self) -> tuple[int, ...]:
        """Return the worker's PID if the worker did not exit."""
        pid = self._worker.stuck_pid
        return () if pid is None else (pid,)

    def _read_in_worker(self, poll: Poll) -> ReadResult:
        failure = self._failure_before_call(poll)
        if failure is not None:
            return ReadResult(failure=failure)
        target = self._reader_target(poll.request)
        if self._worker.pid is None:
            # The states are read before the call, so that no change during the call is missed.
            self._library_states = library_states(self._worker.environment)
        request = Read(poll.request, target, self._root)
        try:
            read_result = self._decode_result(self._worker.call(request, poll.deadline, self._closed.is_set))
        except WorkerError as error:
            return ReadResult(failure=self._closed_failure() if self._closed.is_set() else error.failure)
        except CodecError as error:
            text = f"{self._source}: the worker's result cannot be decoded: {error}"
            return ReadResult(failure=Failure("failed", "internal", text))
        if read_result.failure is not None:
            self._handle_failure(read_result.failure)
        return read_result

    def _closed_failure(self) -> Failure:
        return Failure("disabled", None, f"{self._source}: the reader is closed")

    def _failure_before_call(self, poll: Poll) -> Failure | None:
        library = poll.request if isinstance(poll.request, Library) else None
        if self._closed.is_set():
            return self._closed_failure()
        if library and library.reader not in self._worker.readers:
            return Failure("missing", None, f"no library reader named {library.reader!r} is installed")
        if library and library.module and self._worker.pid is None and not find_spec(library.module):
            # A new worker would fail in the same way.
            text = f"the Python module {library.module} is not installed: pip install '{library.package}'"
            return Failure("missing", None, text)
        if library and self._missing_failure is not None and not self._is_retry_due(library):
            return self._missing_failure
        if isinstance(poll.request, Files) and not has_folder(poll.request, self._root):
            # Do not start a worker on a node without the cards of this source.
            return Failure("missing", None, f"{self._source}: none of the folders to read exists")
        return None

    def _is_retry_due(self, request: Library) -> bool:
        now = self._clock()
        if now < self._next_check_at:
            return False
        if now >= self._next_retry_at or not self._reader_target(request).startswith(_BUILT_IN_PREFIX):
            return True
        return library_states(self._worker.environment) != self._library_states

    def _reader_target(self, request: Request) -> str:
        return self._worker.readers[request.reader] if isinstance(request, Library) else ""

    def _handle_failure(self, failure: Failure) -> None:
        is_missing = failure.state == "missing"
        if is_missing:
            now = self._clock()
            self._missing_failure = failure
            self._next_check_at, self._next_retry_at = now + _CHECK_SECONDS, now + _RETRY_SECONDS
        is_driver_lost = failure.reason in ("library_mismatch", "driver_gone")
        if is_missing or (is_driver_lost and self._worker.running_seconds >= _RESTART_SECONDS):
            self._worker.stop()
