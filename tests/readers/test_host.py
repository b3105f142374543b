"""The host reader: its calls on this machine, the CPU's share over an interval, and calls that fail."""

import errno
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest

from kits.command_reader import NO_TARGETS
from telemetry_daemon.readers.host import CpuMeter, HostReader, host_calls
from telemetry_parsers.host import parse
from telemetry_parsers.model import Absent, Command, Failure, Files, Library, Output, Plain, Poll, Request

CALLS = ("cpu", "memory", "load", "uptime")


def poll(*calls: str) -> Poll:
    return Poll("readings", Library("host", calls))


def test_this_machine_answers_every_call_and_the_parser_understands_it() -> None:
    reader = HostReader()
    capture = reader.read(poll(*CALLS), NO_TARGETS)
    reader.close()
    assert capture.failure is None
    assert [(output.name, output.status) for output in capture.outputs] == [(call, 0) for call in CALLS]
    assert capture.outputs[1].data["total_bytes"] == psutil.virtual_memory().total
    assert capture.source == "host"
    for value in (capture.outputs[3].data["seconds"], capture.seconds, capture.wall_time, capture.monotonic_time):
        assert math.isfinite(value)
        assert value > 0
    report = parse(capture)
    assert report.problems == ()
    absent = {reading.metric: reading.value for reading in report.readings if isinstance(reading.value, Absent)}
    assert absent == {"telemetry_host_cpu_utilization_ratio": Absent.NOT_REPORTED}, "the first share is unknown"


def test_cpu_share_is_of_the_first_line(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu  200 0 100 700 0 0 0 0 150 0\ncpu0 200 0 100 700 0 0 0 0 150 0\n")
    cpu = host_calls(tmp_path)["cpu"]
    assert cpu() == {"utilization_percent": None}
    (tmp_path / "stat").write_text("cpu  230 0 110 760 0 0 0 0 180 0\ncpu0 900 0 100 700 0 0 0 0 150 0\n")
    assert cpu() == {"utilization_percent": pytest.approx(40.0)}


# The content of /proc/stat and /proc/meminfo, and the results.
PROC = {
    "as it is": ("cpu  200 0 100 700 0 0 0 0 0 0\ncpu0 1 2 3\n", "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 400 kB\n", 0, 409600),
    "a kernel with a state more": ("cpu 2 0 1 7 0 0 0 0 0 0 5\n", "MemTotal: 1000 kB\nMemAvailable: 0 kB\n", 0, 0),
    "a container with more than all": ("cpu 2 0 1 7\n", "MemTotal: 1000 kB\nMemAvailable: 1001 kB\n", 0, None),
    "masked": ("", "", errno.EIO, None),
    "of another kind": ("intr 5\n", "MemTotal: many kB\n", errno.EIO, None),
    "without available memory": ("cpu 2 0 1 7\n", "MemTotal: 1000 kB\nMemFree: 400 kB\n", 0, None),
    "without total memory": ("btime 1\n", "MemFree: 400 kB\n", errno.EIO, None),
}  # fmt: skip


@pytest.mark.parametrize(("stat", "meminfo", "status", "available"), PROC.values(), ids=PROC)
def test_odd_proc_files_are_read(tmp_path: Path, stat: str, meminfo: str, status: int, available: int | None) -> None:
    (tmp_path / "stat").write_text(stat)
    (tmp_path / "meminfo").write_text(meminfo)
    capture = HostReader(host_calls(tmp_path)).read(poll("cpu", "memory"), NO_TARGETS)
    assert [output.status for output in capture.outputs] == [status, status]
    if not status:
        assert capture.outputs[1].data == {"total_bytes": 1024000, "available_bytes": available}


def times(**seconds: float) -> Mapping[str, float]:
    return {"user": 0.0, "system": 0.0, "idle": 0.0, "iowait": 0.0, "guest": 0.0, **seconds}


@pytest.mark.parametrize(
    ("first", "second", "share"),
    [
        (times(), times(user=1, idle=3), 25.0),
        (times(idle=5), times(idle=9), 0.0),
        (times(idle=5), times(idle=5, system=2), 100.0),
        (times(user=100.07, system=50.03), times(user=102.58, system=50.1), 100.0),  # rounding must not exceed it
        (times(idle=5, iowait=4), times(idle=7, iowait=3, user=2), 50.0),
        (times(user=1), times(user=3, guest=2, idle=2), 50.0),
        (times(idle=5), times(idle=5), None),
        (times(idle=5), times(idle=4), None),
    ],
)
def test_cpu_share_between_two_calls(
    first: Mapping[str, float], second: Mapping[str, float], share: float | None
) -> None:
    samples: Iterator[Mapping[str, float]] = iter((first, second))
    meter = CpuMeter(lambda: next(samples))
    assert meter() == {"utilization_percent": None}
    assert meter() == {"utilization_percent": share}


def test_an_interval_too_short_to_count_is_added_to_the_next() -> None:
    samples = iter((times(idle=5), times(idle=5), times(idle=6, user=3)))
    meter = CpuMeter(lambda: next(samples))
    assert [meter()["utilization_percent"] for _ in range(3)] == [None, None, 75.0]


def fails_with(error: Exception) -> Plain:
    raise error


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (PermissionError(errno.EACCES, "Permission denied"), errno.EACCES),
        (RuntimeError("unknown format of /proc/stat"), errno.EIO),
        (ValueError("no number"), errno.EIO),
        (KeyError("MemTotal"), errno.EIO),
    ],
)
def test_failing_call_affects_only_its_own_output(error: Exception, status: int) -> None:
    reader = HostReader({"memory": lambda: fails_with(error), "load": lambda: {"load1": 0.5}})
    memory, load = reader.read(poll("memory", "load"), NO_TARGETS).outputs
    assert (memory.status, memory.data) == (status, None)
    assert load == Output("load", status=0, data={"load1": 0.5})


def test_an_unknown_call_is_reported() -> None:
    (output,) = HostReader().read(poll("fans"), NO_TARGETS).outputs
    assert (output.status, output.data) == (errno.ENOSYS, None)


@pytest.mark.parametrize("request_", [Library("nvml", ("cpu",)), Files(("/proc/stat",)), Command((("uptime",),))])
def test_other_requests_are_refused(request_: Request) -> None:
    capture = HostReader().read(Poll("readings", request_), NO_TARGETS)
    text = "the host reader supports only the library `host`"
    assert capture.failure == Failure("failed", "internal", text)
