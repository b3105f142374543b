"""Chrome traces of torch.profiler and torch_musa, as Kineto writes them since 2021 for the cards of all vendors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from telemetry_profile.facts.device_timeline import Launched, Timeline
from telemetry_profile.facts.flops_of_shapes import MATRIX_OPERATORS, MatrixWork
from telemetry_profile.facts.kernel_kinds import is_step, work_of
from telemetry_profile.facts.sql_columns import shape
from telemetry_profile.facts.trace_facts import begins_like_ascend, clock_of, rank_in_name, shifted, whole
from telemetry_profile.format_contract import (
    Card,
    Clue,
    Device,
    Facts,
    Flops,
    TraceEvent,
    TraceFormat,
    TraceSample,
    Work,
)

_NAME = "torch-trace"

# The categories of Kineto's ActivityType since 2021; the first letters were large until 2022.
_KERNELS = frozenset({"kernel", "Kernel", "concurrent_kernel", "mtia_ccp_events"})
_COPIES = frozenset({"gpu_memcpy", "Memcpy", "gpu_memset", "Memset"})
_OPERATORS = frozenset({"cpu_op", "Operator", "user_annotation"})
_RUNTIMES = frozenset(
    {"cuda_runtime", "Runtime", "cuda_driver", "xpu_runtime", "xpu_driver", "mtia_runtime", "glow_runtime"}
    | {"privateuse1_runtime", "privateuse1_driver", "musa_runtime", "musa_driver", "hip_runtime"}
)
_RANGES = frozenset({"cuda_profiler_range", "musa_profiler_range"})
_OTHERS = frozenset({"python_function", "gpu_user_annotation", "cpu_instant_event", "overhead", "cuda_sync", "Trace"})
_CATEGORIES = _KERNELS | _COPIES | _OPERATORS | _RUNTIMES | _RANGES | _OTHERS
_KEYS = frozenset({"schemaVersion", "deviceProperties", "distributedInfo", "baseTimeNanoseconds"})

# The categories of Ascend's profiler, hipprof and rocprof that Kineto does not have.
_FOREIGN = frozenset(
    {"HostToDevice", "async_npu", "async_task_queue", "enqueue", "dequeue", "HIP", "HIPOPS", "HIPCOPY"}
)

_REPLAYED = "the trace holds counters of ranges, which the profiler replays: no times of kernels"
_NO_DEVICE = "nothing in the trace ran on a device: CPU only, or the profiler could not see the device"

_MARKED = "user_annotation"
_STEP = "ProfilerStep#"  # if the profiler marks no steps, the steps that the program marks count
_LOADER = "enumerate(DataLoader)"
_LEAST_RUN = 0.5  # of the launched kernels; fewer run while a graph is captured
_MOST_INDEX = 10_000
_MOST_RANK = 10_000_000
_MOST_BASE_NS = 4 * 10**18


class _Reader:
    def __init__(self, clue: Clue) -> None:
        self._timeline = Timeline()
        self._matrix = MatrixWork()
        self._marked: list[tuple[str, int | None, int | None]] = []
        self._has_steps = False
        self._works: dict[str, Work] = {}
        self._longest: dict[tuple[int | str, str], int] = {}
        self._rank = rank_in_name(clue)
        self._ranks: int | None = None
        self._base_ns = 0
        self._has_ranges = False

    def key(self, name: str, value: Any) -> None:  # JSON of any shape
        """Read the cards, the rank and the clock; other keys name hosts, users and jobs."""
        if name == "deviceProperties" and isinstance(value, list):
            self._cards(value)
        elif name == "distributedInfo" and isinstance(value, Mapping):
            rank = whole(value.get("rank"), _MOST_RANK)
            self._rank = self._rank if rank is None else rank
            self._ranks = whole(value.get("world_size"), _MOST_RANK) or None
        elif name == "baseTimeNanoseconds":
            self._base_ns = whole(value, _MOST_BASE_NS) or 0

    def events(self, events: Sequence[TraceEvent]) -> None:
        for event in events:
            if event.ph != "X":
                continue
            category = event.cat
            if category in _OPERATORS:
                self._operator(event)
            elif category in _RUNTIMES:
                self._runtime(event)
            elif category in _KERNELS:
                self._kernel(event, self._work(event.name))
            elif category in _COPIES:
                self._kernel(event, "copy")
            elif category in _RANGES:
                self._has_ranges = True

    def facts(self) -> Facts:
        for step in () if self._has_steps else self._marked:
            self._timeline.step(*step)
        devices = tuple(_without_last(device) for device in self._timeline.devices())
        if len(devices) == 1:
            flops = self._flops(devices[0])
            devices = (replace(devices[0], flops=flops, dtype=self._matrix.dtype() if flops else ""),)
        devices = shifted((replace(device, rank=self._rank) for device in devices), self._base_ns)
        remarks = () if devices else (_REPLAYED if self._has_ranges else _NO_DEVICE,)
        facts = self._timeline.facts(_NAME, "torch.profiler", clock_of(devices), devices)
        return replace(facts, ranks=self._ranks, remarks=remarks)

    def _flops(self, device: Device) -> Flops | None:
        """Return the FLOPs of the shapes of operators; None while a graph is captured, since launched kernels do not run then."""
        runs = sum(kernel.calls for kernel in device.kernels if kernel.work != "copy")
        if runs < (device.split.launches or 0) * _LEAST_RUN:
            return None
        steps = zip(self._timeline.host_steps(), device.steps, strict=True)
        return self._matrix.flops([span for span, step in steps if not step.is_cut])

    def _cards(self, described: list[Any]) -> None:
        for device in described[:_MOST_INDEX]:
            if isinstance(device, Mapping) and (index := whole(device.get("id"), _MOST_INDEX)) is not None:
                model = device.get("name")
                self._timeline.set_card(index, Card(index, model if isinstance(model, str) else ""))

    def _operator(self, event: TraceEvent) -> None:
        name = event.name
        if name in MATRIX_OPERATORS:
            begin, length = event.begin_ns(), event.length_ns()
            if begin is not None and length is not None and length >= 0:
                self._matrix.add_operator((event.pid, event.tid), name, (begin, begin + length), event.args())
        elif name.startswith(_STEP):
            self._has_steps = True
            self._timeline.step(name, event.begin_ns(), event.length_ns())
        elif name.startswith(_LOADER):
            self._timeline.data_wait(event.begin_ns(), event.length_ns())
        elif event.cat == _MARKED and is_step(name) and len(self._marked) < _MOST_INDEX:
            self._marked.append((name, event.begin_ns(), event.length_ns()))

    def _runtime(self, event: TraceEvent) -> None:
        self._timeline.call(event.name, event.length_ns())
        kind = _launched(event.name)
        if kind is None or (begin := event.begin_ns()) is None:
            return
        self._timeline.launch(begin, kind, event.correlation())
        if kind == "kernel":
            self._matrix.launch((event.pid, event.tid), begin)

    def _work(self, name: str) -> Work:
        """Return what a kernel does, cached by its name, since names are long and calls are many."""
        work = self._works.get(name)
        if work is None:
            work = work_of(name)
            if len(self._works) < _MOST_INDEX:
                self._works[name] = work
        return work

    def _kernel(self, event: TraceEvent, work: Work) -> None:
        begin, length, device = event.begin_ns(), event.length_ns(), event.pid
        longest = self._longest.get((device, event.name), -1)
        number = event.correlation()
        launch = -1 if number is None else number
        if length is None or length <= longest:
            self._timeline.add(device, work, begin, length, event.name, launch=launch)
            return
        if len(self._longest) < _MOST_INDEX:
            self._longest[device, event.name] = length
        arguments = event.args()
        grid, block = _sizes(arguments.get("grid")), _sizes(arguments.get("block"))
        occupancy = _occupancy(arguments.get("est. achieved occupancy %"))
        self._timeline.add(device, work, begin, length, event.name, grid, block, occupancy, launch)


@lru_cache(maxsize=1000)
def _launched(function: str) -> Launched | None:
    """Return what a function of the runtime launches (cudaGraphLaunch, hipModuleLaunchKernel, cudaMemcpyAsync); None for nothing."""
    if "aunchHostFunc" in function:
        return None
    if "aunch" in function or function.startswith("runFunction"):
        return "graph" if "Graph" in function else "kernel"
    return "copy" if "emcpy" in function or "emset" in function else None


def _without_last(device: Device) -> Device:
    """Return the device with its last step marked as cut if nothing was launched in that step: the profiler ended in it."""
    *before, last = device.steps or (None,)
    if last is None or last.split.launches or not any(step.split.launches for step in before):
        return device
    return replace(device, steps=(*before, replace(last, is_cut=True)))


def _sizes(printed: object) -> str:
    return shape(*printed) if isinstance(printed, list) and len(printed) == 3 else ""


def _occupancy(percent: object) -> float | None:
    """Return the ratio of a percentage; None for 0, which Kineto prints for an unknown occupancy."""
    return percent / 100 if isinstance(percent, int | float) and 0 < percent <= 100 else None


def _recognises(sample: TraceSample) -> bool:
    categories = {event.cat for event in sample.events}
    if categories & _FOREIGN or any(event.name.startswith("AscendCL@") for event in sample.events):
        return False
    return not begins_like_ascend(sample) and bool(sample.keys.keys() & _KEYS or categories & _CATEGORIES)


FORMAT = TraceFormat(_NAME, "torch.profiler", _recognises, _Reader)
