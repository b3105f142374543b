"""Reads a library or files in a worker process, so that a wedged driver costs that process only; a library that is missing is tried again when it may have come."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec

from telemetry_daemon.processes.driver_files import is_there
from telemetry_daemon.processes.worker import Worker, WorkerError
from telemetry_daemon.readers.base import Begun, Targets
from telemetry_parsers.codec.plain import CodecError
from telemetry_parsers.codec.worker_wire import Read, Readout, checked_readout
from telemetry_parsers.model import Capture, Failure, Files, Library, Plain, Poll, Request

# Device, inode and time of the last change of a place; None where there is none.
Mark = tuple[int, int, int] | None

# ld.so's own folders, with and without Debian's names for them; musl's; and its list of all others, which ldconfig writes.
_OF_MACHINE = f"{os.uname().machine}-linux-gnu"
_PLACES = (
    "/etc/ld.so.cache",
    *("/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib", f"/lib/{_OF_MACHINE}", f"/usr/lib/{_OF_MACHINE}"),
)
# A library that was replaced or lost its driver is dropped by leaving the process, but not at every poll.
_RENEWAL_SECONDS = 30.0
# A library that is not there is looked for once a minute, not once a minute by every poll of its source.
_LOOK_AGAIN_SECONDS = 55.0
# Where it depends on the dynamic loader alone, a process is started for it only if a place where that looks has changed.
_OURS = "telemetry_daemon.readers."
_TRY_AGAIN_SECONDS = 1800.0


def marks(environment: Mapping[str, str]) -> tuple[Mark, ...]:
    """What changes when a library, or its binding, comes to a place where a Python with this environment would find it."""
    listed = environment.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":")
    # A Python that was built for a folder of its own, as conda's, has that folder's libraries, too.
    own = (f"{sys.base_prefix}/lib", f"{sys.prefix}/lib")
    return tuple(map(_mark, (*filter(None, listed), *_PLACES, *own, *sys.path)))


def _mark(path: str) -> Mark:
    try:
        status = os.stat(path)  # noqa: PTH116  # a path is a text here
    except (OSError, ValueError):  # no such place, which is a mark as well
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns


class WorkerReader:
    """The reader of one source. The worker stays its owner's: closing the reader stops it, another reader may use it again.

    `root` is the folder that files are read below: in a container the host's own may lie elsewhere. `readout_in` takes in what
    the worker answers: whose code runs in it says how much of that is checked.
    """

    def __init__(
        self,
        source: str,
        worker: Worker,
        root: str = "/",
        clock: Callable[[], float] = time.monotonic,
        readout_in: Callable[[Plain], Readout] = checked_readout,
    ) -> None:
        self._source = source
        self._worker = worker
        self._root = root
        self._clock = clock
        self._readout_in = readout_in
        self._closed = threading.Event()
        self._missing: Failure | None = None
        self._look_again = self._try_again = 0.0
        self._marks: tuple[Mark, ...] = ()

    def read(self, poll: Poll, targets: Targets) -> Capture:  # noqa: ARG002  # a library knows its devices
        """What the library or the files said, or the failure that kept them from saying it."""
        begun, cpu_before = Begun(), self._worker.cpu_seconds
        readout = self._answer(poll)
        cpu_seconds = self._worker.cpu_seconds - cpu_before
        return begun.capture(self._source, poll, readout.outputs, readout.failure, cpu_seconds)

    def look(self, poll: Poll) -> Capture | None:
        """The capture of a poll of which nothing is there; None if only the worker can tell."""
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
        """The worker, when it did not end."""
        pid = self._worker.stuck_pid
        return () if pid is None else (pid,)

    def _answer(self, poll: Poll) -> Readout:
        refusal = self._refusal(poll)
        if refusal is not None:
            return Readout(failure=refusal)
        target = self._target(poll.request)
        if self._worker.pid is None:
            self._marks = marks(self._worker.environment)  # before the look: what comes meanwhile is a change
        what = Read(poll.request, target, self._root)
        try:
            readout = self._readout_in(self._worker.call(what, poll.deadline, self._closed.is_set))
        except WorkerError as error:
            return Readout(failure=self._closed_failure() if self._closed.is_set() else error.failure)
        except CodecError as error:
            text = f"{self._source}: what was read is no output: {error}"
            return Readout(failure=Failure("failed", "internal", text))
        if readout.failure is not None:
            self._renew(readout.failure)
        return readout

    def _closed_failure(self) -> Failure:
        """To end or to be released is no fault of the source."""
        return Failure("disabled", None, f"{self._source}: the reader is closed")

    def _refusal(self, poll: Poll) -> Failure | None:
        """Why no worker is asked, None when one is."""
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
            # Without it a process could only say the same; one that runs has it.
            text = f"the Python module {request.module} is not installed: pip install '{request.package}'"
            return Failure("missing", None, text)
        if isinstance(request, Library) and self._missing is not None and not self._may_have_come(request):
            return self._missing
        if isinstance(request, Files) and not is_there(request, self._root):
            # On a node without such cards no process is kept for them.
            return Failure("missing", None, f"{self._source}: none of the folders to read is there")
        return None

    def _may_have_come(self, request: Library) -> bool:
        """Whether another look for a missing library is due and may find it."""
        now = self._clock()
        if now < self._look_again:
            return False
        by_loader_alone = self._target(request).startswith(_OURS)
        return not by_loader_alone or now >= self._try_again or marks(self._worker.environment) != self._marks

    def _target(self, request: Request) -> str:
        return self._worker.readers[request.reader] if isinstance(request, Library) else ""

    def _renew(self, failure: Failure) -> None:
        """A fresh process sees a library that has come, or come back."""
        missing = failure.state == "missing"
        if missing:
            now = self._clock()
            self._missing, self._look_again, self._try_again = (
                failure,
                now + _LOOK_AGAIN_SECONDS,
                now + _TRY_AGAIN_SECONDS,
            )
        lost = failure.reason in ("library_mismatch", "driver_gone")
        if missing or (lost and self._worker.running_seconds >= _RENEWAL_SECONDS):
            self._worker.stop()
