"""Splits of traces, compared with a raster of the same intervals; and damaged real traces."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiles.test_traces import FORMATS
from profiles.traces import event, profile_captures, read_as

LENGTH = 60
CATEGORIES = {
    "compute": ("kernel", "gemm"),
    "communication": ("kernel", "ncclDevKernel_AllReduce"),
    "copy": ("gpu_memcpy", "Memcpy HtoD"),
}
INTERVALS = st.lists(
    st.tuples(st.sampled_from(sorted(CATEGORIES)), st.integers(0, LENGTH - 1), st.integers(0, 20), st.integers(7, 9)),
    min_size=1,
    max_size=25,
)


def raster(intervals: list[tuple[str, int, int, int]], begin: int, end: int) -> dict[str, int]:
    """Return the parts of a span in microseconds, counted microsecond by microsecond."""
    running = [
        {work for work, since, length, _ in intervals if since <= time < since + length} for time in range(begin, end)
    ]
    return {
        "compute_ns": 1000 * sum("compute" in now for now in running),
        "communication_ns": 1000 * sum("communication" in now for now in running),
        "exposed_communication_ns": 1000 * sum("communication" in now and "compute" not in now for now in running),
        "copy_ns": 1000 * sum("copy" in now for now in running),
        "exposed_copy_ns": 1000 * sum(now == {"copy"} for now in running),
        "idle_ns": 1000 * sum(not now for now in running),
        "span_ns": 1000 * (end - begin),
    }


@settings(deadline=None, max_examples=60)
@given(INTERVALS, st.integers(0, LENGTH), st.integers(0, LENGTH))
def test_a_trace_is_split_as_a_raster_splits_it(
    intervals: list[tuple[str, int, int, int]], step_begin: int, step_length: int
) -> None:
    events = [event(*CATEGORIES[work], 1000 + since, length, tid=stream) for work, since, length, stream in intervals]
    events.append(event("user_annotation", "ProfilerStep#1", 1000 + step_begin, step_length, pid=99))
    facts = read_as(FORMATS, {"schemaVersion": 1, "traceEvents": events})
    assert facts is not None
    (device,) = facts.devices
    end = max(since + length for _, since, length, _ in intervals)
    begin = min(since for _, since, _, _ in intervals)
    for split, expected in (
        (device.split, raster(intervals, begin, end)),
        (device.steps[0].split, raster(intervals, step_begin, step_begin + step_length)),
    ):
        assert {name: getattr(split, name) for name in expected} == expected


def _traces() -> list[Path]:
    folder = profile_captures()
    found = folder.rglob("*.json*") if folder else []
    traces = [path for path in sorted(found) if path.stat().st_size < 60_000]
    return [path for path in traces if read_as(FORMATS, _unpacked(path), str(path)) is not None]


def _unpacked(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


@pytest.mark.long
def test_truncated_trace_has_a_subset_of_the_facts() -> None:
    for path in _traces():
        _cuts_have_no_more(path, _unpacked(path))


def _cuts_have_no_more(path: Path, data: bytes) -> None:
    whole = read_as(FORMATS, data, str(path))
    assert whole is not None
    kernels = {(kernel.name, kernel.work): kernel for device in whole.devices for kernel in device.kernels}
    for part in range(1, 24):
        facts = read_as(FORMATS, data[: len(data) * part // 24], str(path))
        if facts is None:
            continue
        assert facts.problems
        for device in facts.devices:
            assert (device.split.idle_ns, device.split.exposed_communication_ns, device.split.exposed_copy_ns) == (
                None,
                None,
                None,
            )
            assert all(step.is_cut for step in device.steps)
            for kernel in device.kernels:
                full = kernels[kernel.name, kernel.work]
                assert (kernel.calls, kernel.total_ns) <= (full.calls, full.total_ns)


@pytest.mark.long
def test_a_trace_with_changed_bytes_raises_nothing() -> None:
    dice = random.Random(7)
    for path in _traces():
        for _ in range(12):
            data = bytearray(_unpacked(path))
            for _ in range(dice.randint(1, 5)):
                data[dice.randrange(len(data))] = dice.randrange(256)
            read_as(FORMATS, bytes(data), str(path))


HOSTILE: dict[str, dict[str, Any]] = {
    "a negative length": {"dur": -5},
    "no length": {"dur": None},
    "a length that is no number": {"dur": "NaN"},
    "an endless length": {"dur": 1e300},
    "a time that is no number": {"ts": "yesterday"},
    "a time beyond all measure": {"ts": 10**18},
    "a time of many digits": {"ts": "9" * 4000},
}


@pytest.mark.parametrize("case", HOSTILE)
def test_an_impossible_time_is_left_out_and_reported(case: str) -> None:
    good = event("kernel", "gemm", 1000, 10)
    operator = event("cpu_op", "aten::mm", 1000, 10, args={"Input Dims": [[2, 2], [2, 2]]}) | HOSTILE[case]
    launch = event("cuda_runtime", "cudaLaunchKernel", 1001, 1) | HOSTILE[case]
    facts = read_as(FORMATS, {"schemaVersion": 1, "traceEvents": [good, good | HOSTILE[case], operator, launch]})
    assert facts is not None
    assert "impossible" in facts.problems[0].text
    assert [(kernel.calls, kernel.total_ns) for kernel in facts.devices[0].kernels] == [(1, 10_000)]


SECRET = "hunter2"  # planted, to be found nowhere


def test_private_texts_are_in_no_facts() -> None:
    arguments = {"name": SECRET, "labels": SECRET, "cmdline": SECRET, "host": SECRET, "Call stack": SECRET}
    events = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": arguments},
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": arguments},
        event("kernel", "gemm", 1, 2, args=arguments),
        event("cpu_op", SECRET, 1, 2, args=arguments),
        event("python_function", SECRET, 1, 2, args=arguments),
        event("HIPOPS", "add", 1, 2, args=arguments | {"devId": 0}),
        event("", "MatMul", 1, 2, args=arguments | {"Task Type": "AI_CORE"}),
    ]
    keys = dict.fromkeys(
        ("username", "hostname", "INFO", "traceName", "environment", "otherData", "distributedInfo"), SECRET
    )
    for kept in (events[:5], [*events[:2], events[5]], [*events[:2], events[6]]):
        for trace in (kept, keys | {"traceEvents": kept}, {"schemaVersion": 1, "traceEvents": kept} | keys):
            assert SECRET not in repr(read_as(FORMATS, json.dumps(trace).encode()))
