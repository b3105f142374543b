"""Reads Chrome traces of torch.profiler and torch_musa."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from telemetry_profile.facts.device_timeline import LaunchKind, Timeline
from telemetry_profile.facts.flops_of_shapes import MATRIX_OPERATORS, MatrixWork
from telemetry_profile.facts.kernel_kinds import is_step, work_of
from telemetry_profile.facts.sql_columns import shape
from telemetry_profile.facts.trace_facts import begins_like_ascend, clock_of, rank_in_name, shift_times, whole_number
from telemetry_profile.format_contract import (
    Card,
    Device,
    Facts,
    FileSample,
    Flops,
    TraceEvent,
    TraceFormat,
    TraceSample,
    Work,
)

_NAME = "torch-trace"

# Categories of events, from Kineto's ActivityType. Some were capitalized until 2022.
_KERNELS = frozenset({"kernel", "Kernel", "concurrent_kernel", "mtia_ccp_events"})
_COPIES = frozenset({"gpu_memcpy", "Memcpy", "gpu_memset", "Memset"})
_OPERATORS = frozenset({"cpu_op", "Operator", "user_annotation"})
_RUNTIMES = frozenset(
    {"cuda_runtime", "Runtime", "cuda_driver", "xpu_runtime", "xpu_driver", "mtia_runtime", "glow_runtime"}
    | {"privateuse1_runtime", "privateuse1_driver", "musa_runtime", "musa_driver", "hip_runtime"}
)
_REPLAYED_RANGES = frozenset({"cuda_profiler_range", "musa_profiler_range"})
_OTHERS = frozenset({"python_function", "gpu_user_annotation", "cpu_instant_event", "overhead", "cuda_sync", "Trace"})
_CATEGORIES = _KERNELS | _COPIES | _OPERATORS | _RUNTIMES | _REPLAYED_RANGES | _OTHERS
_KINETO_KEYS = frozenset({"schemaVersion", "deviceProperties", "distributedInfo", "baseTimeNanoseconds"})

# Categories of other profilers, which Kineto does not use.
_FOREIGN_CATEGORIES = frozenset(
    {"HostToDevice", "async_npu", "async_task_queue", "enqueue", "dequeue", "HIP", "HIPOPS", "HIPCOPY"}
)

_NO_TIMES = "the trace contains performance counters, but no kernel times"
_NO_WORK = "the trace contains no device work: the program used only the CPU, or the profiler did not see the device"

_ANNOTATION = "user_annotation"
_STEP_PREFIX = "ProfilerStep#"  # if there are none, ranges of the program mark the steps
_LOADER_PREFIX = "enumerate(DataLoader)"
_MIN_RUN_RATIO = 0.5  # if fewer of the launched kernels ran, most were captured into a graph
_MAX_INDEX = 10_000
_MAX_RANK = 10_000_000
_MAX_BASE_TIME_NS = 4 * 10**18


class _Reader:
    def __init__(self, file: FileSample) -> None:
        self._timeline = Timeline()
        self._matrix_work = MatrixWork()
        self._program_steps: list[tuple[str, int | None, int | None]] = []
        self._has_profiler_steps = False
        self._work_by_name: dict[str, Work] = {}
        self._longest_ns_by_kernel: dict[tuple[int | str, str], int] = {}
        self._rank = rank_in_name(file)
        self._job_ranks: int | None = None
        self._base_time_ns = 0
        self._has_replayed_ranges = False

    def read_key(self, name: str, value: Any) -> None:  # JSON of any shape
        """Read the cards, the rank and the clock, but no names of hosts or users."""
        if name == "deviceProperties" and isinstance(value, list):
            self._set_cards(value)
        elif name == "distributedInfo" and isinstance(value, Mapping):
            rank = whole_number(value.get("rank"), _MAX_RANK)
            self._rank = self._rank if rank is None else rank
            self._job_ranks = whole_number(value.get("world_size"), _MAX_RANK) or None
        elif name == "baseTimeNanoseconds":
            self._base_time_ns = whole_number(value, _MAX_BASE_TIME_NS) or 0

    def read_events(self, events: Sequence[TraceEvent]) -> None:
        for event in events:
            if event.ph != "X":
                continue
            category = event.cat
            if category in _OPERATORS:
                self._add_operator(event)
            elif category in _RUNTIMES:
                self._add_runtime_call(event)
            elif category in _KERNELS:
                self._add_kernel(event, self._cached_work(event.name))
            elif category in _COPIES:
                self._add_kernel(event, "copy")
            elif category in _REPLAYED_RANGES:
                self._has_replayed_ranges = True

    def facts(self) -> Facts:
        for step in () if self._has_profiler_steps else self._program_steps:
            self._timeline.add_step(*step)
        devices = tuple(_mark_cut_step(device) for device in self._timeline.devices())
        if len(devices) == 1:
            flops = self._flops(devices[0])
            devices = (replace(devices[0], flops=flops, dtype=self._matrix_work.dtype() if flops else ""),)
        devices = shift_times((replace(device, rank=self._rank) for device in devices), self._base_time_ns)
        remarks = () if devices else (_NO_TIMES if self._has_replayed_ranges else _NO_WORK,)
        facts = self._timeline.facts(_NAME, "torch.profiler", clock_of(devices), devices)
        return replace(facts, job_ranks=self._job_ranks, remarks=remarks)

    def _flops(self, device: Device) -> Flops | None:
        """Return the FLOPs from the shapes of operators. Return None if most kernels were captured into a graph."""
        executions = sum(kernel.calls for kernel in device.kernels if kernel.work != "copy")
        if executions < (device.split.launches or 0) * _MIN_RUN_RATIO:
            return None
        steps = zip(self._timeline.host_steps(), device.steps, strict=True)
        return self._matrix_work.flops([span for span, step in steps if not step.is_cut])

    def _set_cards(self, properties: list[Any]) -> None:
        for device in properties[:_MAX_INDEX]:
            if isinstance(device, Mapping) and (index := whole_number(device.get("id"), _MAX_INDEX)) is not None:
                model = device.get("name")
                self._timeline.set_card(index, Card(index, model if isinstance(model, str) else ""))

    def _add_operator(self, event: TraceEvent) -> None:
        name = event.name
        if name in MATRIX_OPERATORS:
            begin, length = event.begin_ns(), event.length_ns()
            if begin is not None and length is not None and length >= 0:
                self._matrix_work.add_operator((event.pid, event.tid), name, (begin, begin + length), event.args())
        elif name.startswith(_STEP_PREFIX):
            self._has_profiler_steps = True
            self._timeline.add_step(name, event.begin_ns(), event.length_ns())
        elif name.startswith(_LOADER_PREFIX):
            self._timeline.add_data_wait(event.begin_ns(), event.length_ns())
        elif event.cat == _ANNOTATION and is_step(name) and len(self._program_steps) < _MAX_INDEX:
            self._program_steps.append((name, event.begin_ns(), event.length_ns()))

    def _add_runtime_call(self, event: TraceEvent) -> None:
        self._timeline.add_call(event.name, event.length_ns())
        launch_kind = _launch_kind_of(event.name)
        if launch_kind is None or (begin := event.begin_ns()) is None:
            return
        self._timeline.add_launch(begin, launch_kind, event.correlation())
        if launch_kind == "kernel":
            self._matrix_work.add_launch((event.pid, event.tid), begin)

    def _cached_work(self, name: str) -> Work:
        work = self._work_by_name.get(name)
        if work is None:
            work = work_of(name)
            if len(self._work_by_name) < _MAX_INDEX:
                self._work_by_name[name] = work
        return work

    def _add_kernel(self, event: TraceEvent, work: Work) -> None:
        begin, length, device = event.begin_ns(), event.length_ns(), event.pid
        longest_ns = self._longest_ns_by_kernel.get((device, event.name), -1)
        correlation = event.correlation()
        launch_number = -1 if correlation is None else correlation
        if length is None or length <= longest_ns:
            self._timeline.add(device, work, begin, length, event.name, launch_number=launch_number)
            return
        if len(self._longest_ns_by_kernel) < _MAX_INDEX:
            self._longest_ns_by_kernel[device, event.name] = length
        arguments = event.args()
        grid, block = _dimensions(arguments.get("grid")), _dimensions(arguments.get("block"))
        occupancy = _occupancy(arguments.get("est. achieved occupancy %"))
        self._timeline.add(device, work, begin, length, event.name, grid, block, occupancy, launch_number)


@lru_cache(maxsize=1000)
def _launch_kind_of(function: str) -> LaunchKind | None:
    """Return what a runtime function such as `cudaLaunchKernel` launches, or None if nothing."""
    if "aunchHostFunc" in function:
        return None
    if "aunch" in function or function.startswith("runFunction"):
        return "graph" if "Graph" in function else "kernel"
    return "copy" if "emcpy" in function or "emset" in function else None


def _mark_cut_step(device: Device) -> Device:
    """Mark the last step as cut if, unlike earlier steps, it launched nothing."""
    *earlier_steps, last_step = device.steps or (None,)
    if last_step is None or last_step.split.launches or not any(step.split.launches for step in earlier_steps):
        return device
    return replace(device, steps=(*earlier_steps, replace(last_step, is_cut=True)))


def _dimensions(printed: object) -> str:
    return shape(*printed) if isinstance(printed, list) and len(printed) == 3 else ""


def _occupancy(percent: object) -> float | None:
    """Return a percentage as a ratio, or None for 0, which means unknown."""
    return percent / 100 if isinstance(percent, int | float) and 0 < percent <= 100 else None


def _recognises(sample: TraceSample) -> bool:
    categories = {event.cat for event in sample.events}
    if categories & _FOREIGN_CATEGORIES or any(event.name.startswith("AscendCL@") for event in sample.events):
        return False
    return not begins_like_ascend(sample) and bool(sample.keys.keys() & _KINETO_KEYS or categories & _CATEGORIES)


FORMAT = TraceFormat(_NAME, "torch.profiler", _recognises, _Reader)
