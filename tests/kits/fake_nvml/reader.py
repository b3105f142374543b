"""The reader `nvml` on a fake NVML, with a clock that a test moves: in the test's process, or in a real worker."""

import ctypes
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

from kits.fake_nvml.library import FakeNvml
from kits.waiting import comes_true
from telemetry_daemon.processes.process import Launcher, launch
from telemetry_daemon.processes.targets import describe_error
from telemetry_daemon.processes.worker import Worker, WorkerFaultError
from telemetry_daemon.processes.worker_main import RequestHandler
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.in_worker import WorkerReader
from telemetry_daemon.readers.nvml import events, gpm, library
from telemetry_daemon.readers.nvml.reader import NvmlReader
from telemetry_parsers.codec.plain import decode_line
from telemetry_parsers.codec.worker_answer import answer_line
from telemetry_parsers.codec.worker_wire import Ask, Question, answer_in, question_line
from telemetry_parsers.model import Absent, Capture, Event, Failure, Plain, Poll, Report, Value
from telemetry_parsers.vendors.nvidia.nvml.parser import PARSER

READERS = Path(__file__).parents[2] / "nvml"
POLLS = {poll.name: poll for poll in PARSER.polls}
TIERS = tuple(POLLS)
# Calls that the reader makes for itself, not for a reading.
_WAITING = "nvmlEventSetWait_v2"


class Seconds:
    """A clock that a test moves; a reader in another process reads it from the file."""

    def __init__(self, file: Path) -> None:
        self.now = 1000.0
        self.file = file
        self.move(0.0)

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        """Advance the clocks of the reader and of the driver, because samples of the driver must be some time apart."""
        time.sleep(seconds)
        self.now += seconds

    def move(self, seconds: float) -> None:
        """Advance the clock of the reader only, not those of the worker and the driver."""
        self.now += seconds
        new = self.file.with_suffix(".new")
        new.write_text(str(self.now))
        new.replace(self.file)


class ThisProcess:
    """A worker in the process of the test."""

    reader: NvmlReader  # the name of the target's attribute
    environment: Mapping[str, str] = os.environ
    cpu_seconds = running_seconds = 0.0
    stuck_pid = None

    def __init__(self, clock: Callable[[], float]) -> None:
        ThisProcess.reader = NvmlReader(clock)
        self.readers = {"nvml": f"{__name__}:ThisProcess.reader"}
        self.pid = os.getpid()
        self._workbench = RequestHandler()

    def call(self, what: Ask, seconds: float, _given_up: object) -> Plain:
        question = decode_line(question_line(Question(1, seconds, what)))
        try:
            line = answer_line(1, 0.0, None, self._workbench.perform(question))
        except Exception as error:
            raise WorkerFaultError(describe_error(error)) from error
        return answer_in(line).result

    def stop(self) -> None:
        self._workbench.close()

    close = stop


class Bench:
    """A reader of a fake node, and its reports."""

    def __init__(self, fake: FakeNvml, worker: Worker | ThisProcess, clock: Seconds) -> None:
        self.fake = fake
        self.worker = worker
        self.move = clock.move
        self.forget()

    def settle(self, seconds: float = 2.0) -> None:
        """Advance the reader's clock by this time, and the driver's by the distance of two samples."""
        time.sleep(0.11)
        self.move(seconds)

    def capture(self, tier: str = "fast", deadline: float = 60.0) -> Capture:
        poll = POLLS[tier]
        return self._reader.read(Poll(poll.name, poll.request, poll.tier, deadline=deadline), Targets())

    def data(self, tier: str = "fast") -> dict[str, Any]:
        """Return the reader's data, which must not be a refusal."""
        capture = self.capture(tier)
        assert capture.failure is None, capture.failure
        found: dict[str, Any] = capture.outputs[0].data
        return found

    def gpu(self, index: int = 0, tier: str = "fast") -> dict[str, Any]:
        found: dict[str, Any] = self.data(tier)["gpus"][index]
        return found

    def refusal(self, tier: str = "fast", deadline: float = 60.0) -> Failure:
        failure = self.capture(tier, deadline).failure
        assert failure is not None
        return failure

    def report(self, tier: str = "fast") -> Report:
        return PARSER.parse(self.capture(tier))

    def events(self, wanted: int) -> list[Event]:
        """Poll until this number of events has come from another thread, and return them."""
        found: list[Event] = []
        assert comes_true(lambda: found.extend(self.report().events) or len(found) >= wanted)
        return found

    def forget(self) -> None:
        """Start a new reader for the same worker, as `telemetry resume` does."""
        self._reader = WorkerReader("nvml", self.worker)  # type: ignore[arg-type]  # it has all that the reader uses

    def made(self, tier: str, where: int | str = 0) -> dict[str, int]:
        """Poll two seconds after the previous poll, and return the driver calls on a device."""
        self.move(2)
        before = self.fake.counts(where)
        self.data(tier)
        after = self.fake.counts(where)
        counted = {call: count - before.get(call, 0) for call, count in after.items()}
        return {call: count for call, count in counted.items() if count and call not in ("*", _WAITING)}


@contextmanager
def loaded(fake: FakeNvml) -> Iterator[ModuleType]:
    """Load the real pynvml with the fake's library in this process, as in a process that has just started."""
    pynvml = import_module("pynvml")
    fresh = {
        "nvmlLib": None,
        "_nvmlLib_refcount": 0,
        "_nvmlGetFunctionPointer_cache": {},
        "CDLL": lambda _name: ctypes.CDLL(str(fake.library)),
    }
    with patch.multiple(pynvml, **fresh):
        yield pynvml


@contextmanager
def reading(fake: FakeNvml, module: Callable[[ModuleType], ModuleType] = lambda pynvml: pynvml) -> Iterator[Bench]:
    """Yield a reader in this process, closed at the end; `module` may replace pynvml."""
    clock = Seconds(fake.folder / "clock")
    with loaded(fake) as pynvml, here(module(pynvml), lambda _name: fake.library.exists(), clock) as stack:
        worker = ThisProcess(clock)
        stack.callback(worker.close)
        yield Bench(fake, worker, clock)


@contextmanager
def here(pynvml: ModuleType, can_be_loaded: Callable[[str], bool], clock: Seconds) -> Iterator[ExitStack]:
    """Give the reader this module and this clock, and let its event thread end soon."""
    with ExitStack() as stack:
        stack.enter_context(patch.dict("sys.modules", {"pynvml": pynvml}))
        stack.enter_context(patch.object(library, "can_be_loaded", can_be_loaded))
        stack.enter_context(patch.object(gpm, "time", clock))
        stack.enter_context(patch.object(events, "WAIT_MILLISECONDS", 20))
        yield stack


@contextmanager
def reading_in_worker(fake: FakeNvml, launcher: Launcher = launch) -> Iterator[Bench]:
    """Yield a reader in a worker process, which can hang and be killed."""
    clock = Seconds(fake.folder / "clock")
    environment = {**fake.environment, "HAND_CLOCK": str(clock.file)}
    readers = {"nvml": f"{READERS}/hand_clock_reader.py:READER"}
    worker = Worker("nvml", readers, launcher=launcher, environment=environment)
    try:
        yield Bench(fake, worker, clock)
    finally:
        worker.close()


def value(report: Report, metric: str, label: str = "", device: int = 0) -> Value:
    """Return a reading of a report; `Absent.NOT_REPORTED` if it is missing."""
    found = [
        item.value for item in report.readings if (item.device, item.metric, item.label) == (device, metric, label)
    ]
    return found[0] if found else Absent.NOT_REPORTED
