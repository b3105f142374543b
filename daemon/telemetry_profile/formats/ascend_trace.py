"""Reads Chrome traces of Ascend cards."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from telemetry_profile.facts.device_timeline import LinkSums, Timeline
from telemetry_profile.facts.kernel_kinds import work_of
from telemetry_profile.facts.trace_facts import begins_like_ascend, clock_of, whole_number
from telemetry_profile.format_contract import (
    Card,
    Device,
    Facts,
    FileSample,
    Split,
    Step,
    TraceEvent,
    TraceFormat,
    TraceSample,
    Work,
)

_NAME, _TOOL = "ascend-trace", "Ascend profiler"
# Names of processes, which show the kind of their events.
_HARDWARE = frozenset({"Ascend Hardware", "Task Scheduler"})  # "Task Scheduler" until CANN 6
_COLLECTIVES = frozenset({"HCCL", "Communication"})  # "Communication" since CANN 8
_OTHER_PROCESSES = frozenset({"CANN", "Overlap Analysis", "AscendCL", "Python"})
_PROCESSES = _HARDWARE | _COLLECTIVES | _OTHER_PROCESSES - {"Python"} | {"Step Trace"}
_FRAMEWORK = frozenset({"cpu_op", "user_annotation"})
_ASCEND_CATEGORIES = frozenset(
    {"HostToDevice", "async_npu", "async_task_queue", "enqueue", "dequeue", "Iteration Time", "FP_BP Time"}
)

# Tasks of other types, such as NOTIFY_WAIT and EVENT_RECORD, wait, signal or mark.
_COMPUTE_TASK = re.compile(r"(AI_|AIC|AIV|MIX_|KERNEL_|VECTOR|CUBE|DSA|DVPP|FFTS|Other\Z)")
_COPY_TASK = re.compile(r"(MEMCPY|SDMA|PCIE_DMA|ASYNC_MEMCPY)")
_DEVICE_FOLDER = re.compile(r"device_(\d{1,4})\Z")
_DEVICE_IN_NAME = re.compile(r"(?:msprof|hccl|task_time|step_trace)_(\d{1,4})_\d+(?:_\d+)*\.json")
# Matches the end of a name with a call number, such as hcom_allReduce__428_0_1.
_CALL_NUMBER = re.compile(r"__\d+(_\d+)*(@.*)?\Z", re.DOTALL)
_PROFILER_RANGES = ("ProfilerStep#", "enumerate(DataLoader)")  # marked by the profiler itself
_MAX_RANK = 2**16  # the partner rank of a task without a partner has all bits set
_DATA_WAIT = "Data_aug Bound"


@dataclass(frozen=True, slots=True)
class _Task:
    """A task or collective, which is added to the timeline after the whole file was read."""

    work: Work
    process: int | str
    stream: int | str
    begin_ns: int | None
    length_ns: int | None
    name: str


class _Reader:
    def __init__(self, file: FileSample) -> None:
        self._timeline = Timeline()
        self._is_full_trace = False  # false for files with only tasks, collectives or iterations
        self._card_index = _device_number(file)
        self._processes: dict[str, str] = {}  # maps process numbers to names
        self._threads: dict[tuple[str, str], str] = {}
        self._collectives: list[_Task] = []
        self._tasks: list[_Task] = []
        self._hardware_pids: set[int | str] = set()
        self._collective_streams: set[int | str] = set()
        self._links = LinkSums()
        self._iteration_bounds: dict[int, tuple[int, int]] = {}
        self._data_waits: dict[int, int] = {}

    def read_key(self, name: str, value: Any) -> None:  # JSON of any shape
        """Do nothing: this format does not need the document's keys."""

    def read_events(self, events: Sequence[TraceEvent]) -> None:
        for event in events:
            if event.ph == "X":
                if not event.cat:
                    self._read_event(event)
                elif event.cat in _FRAMEWORK:
                    self._read_range(event)
                elif event.cat == "Iteration Time":
                    self._read_iteration(event)
            elif event.ph == "M":
                self._read_name(event)
            elif event.ph == "t" and event.cat == _DATA_WAIT:
                self._read_data_wait(event)

    def facts(self) -> Facts:
        self._add_collected_events()
        devices = tuple(self._drop_unmeasured(device) for device in self._timeline.devices()) or self._device_of_steps()
        if len(devices) == 1:
            devices = (replace(devices[0], card=Card(self._card_index)),)
        return Facts(
            self._format_name(),
            _TOOL,
            clock_of(devices, default="boot"),
            devices=devices,
            links=tuple(sorted(self._links.links(), key=lambda link: (link.kind, link.source, link.target))),
            problems=self._timeline.problems(),
        )

    def _format_name(self) -> str:
        if self._is_full_trace:
            return _NAME
        if self._hardware_pids:
            return "ascend-tasks"
        return "ascend-collectives" if self._collectives else "ascend-iterations"

    def _drop_unmeasured(self, device: Device) -> Device:
        """Return the device without the values that this file does not measure."""
        if self._is_full_trace:
            return device
        compute_ns = device.split.compute_ns if self._hardware_pids else None
        communication_ns = device.split.communication_ns if self._collectives else None
        return replace(device, split=Split(device.split.span_ns, compute_ns, communication_ns), steps=())

    def _read_name(self, event: TraceEvent) -> None:
        name = event.args().get("name")
        if isinstance(name, str) and event.name == "process_name":
            self._processes[str(event.pid)] = name
            self._is_full_trace |= name in _OTHER_PROCESSES
        elif isinstance(name, str) and event.name == "thread_name":
            self._threads[str(event.pid), str(event.tid)] = name

    def _read_event(self, event: TraceEvent) -> None:
        process = self._processes.get(str(event.pid), "")
        if process in _HARDWARE:
            self._read_task(event)
        elif process in _COLLECTIVES:
            if self._threads.get((str(event.pid), str(event.tid)), "").startswith("Plane"):
                self._read_collective_task(event)
            else:
                self._collectives.append(_task_of("communication", event, event.tid))

    def _read_task(self, event: TraceEvent) -> None:
        task_type = event.args().get("Task Type")
        task_type = task_type if isinstance(task_type, str) else ""
        self._hardware_pids.add(event.pid)
        if work_of(event.name) == "communication":
            self._tasks.append(_task_of("communication", event, event.tid))
        elif _COPY_TASK.match(task_type):
            self._tasks.append(_task_of("copy", event, event.tid))
        elif _COMPUTE_TASK.match(task_type):
            self._timeline.add(event.pid, "compute", event.begin_ns(), event.length_ns(), event.name)

    def _read_collective_task(self, event: TraceEvent) -> None:
        arguments = event.args()
        stream = arguments.get("stream id")
        if isinstance(stream, int | str):
            self._collective_streams.add(stream)
        source, target = (whole_number(arguments.get(end), _MAX_RANK) for end in ("src rank", "dst rank"))
        size = whole_number(arguments.get("size(Byte)"), 2**60)
        transport = arguments.get("transport type")
        if size and source is not None and target is not None and source != target and isinstance(transport, str):
            self._links.add(transport[:20], str(source), str(target), size, event.length_ns())

    def _read_range(self, event: TraceEvent) -> None:
        if event.cat == "cpu_op" and not event.name.startswith(_PROFILER_RANGES):
            return
        self._timeline.add_range(event.name, event.begin_ns(), event.length_ns())

    def _read_iteration(self, event: TraceEvent) -> None:
        number = whole_number(event.args().get("Iteration ID"), 2**40)
        begin, length = event.begin_ns(), event.length_ns()
        if number is not None and begin is not None and length is not None and length >= 0:
            self._iteration_bounds[number] = begin, begin + length

    def _read_data_wait(self, event: TraceEvent) -> None:
        wait_us = event.args().get(f"{_DATA_WAIT}(us)")
        number = event.name.rpartition(" ")[2]
        if isinstance(wait_us, int | float) and 0 <= wait_us < 2**40 and number.isdecimal() and len(number) < 12:
            self._data_waits[int(number) + 1] = round(wait_us * 1000)

    def _iteration_spans(self) -> list[tuple[int, int, int, int | None]]:
        """Return each iteration as (number, start, end, data wait). If possible, the span includes the data wait."""
        spans: list[tuple[int, int, int, int | None]] = []
        for number, (begin, end) in sorted(self._iteration_bounds.items()):
            wait = self._data_waits.get(number)
            previous_end = self._iteration_bounds.get(number - 1, (0, end))[1]
            if wait and previous_end <= begin:
                spans.append((number, previous_end, end, min(wait, end - previous_end)))
            else:
                spans.append((number, begin, end, wait))
        return spans

    def _add_collected_events(self) -> None:
        """Add collectives, copies and steps to the timeline."""
        for task in self._collectives or [task for task in self._tasks if task.work == "communication"]:
            self._add_task(task)
        for task in self._tasks:
            if self._is_full_trace and task.work == "copy" and task.stream not in self._collective_streams:
                self._add_task(task)
        for number, begin, end, wait in self._iteration_spans():
            self._timeline.add_step(f"Iteration {number}", begin, end - begin)
            if wait is not None:
                self._timeline.add_data_wait(begin, wait)

    def _add_task(self, task: _Task) -> None:
        key = next(iter(self._hardware_pids)) if len(self._hardware_pids) == 1 else task.process
        self._timeline.add(key, task.work, task.begin_ns, task.length_ns, task.name)

    def _device_of_steps(self) -> tuple[Device, ...]:
        """Return the device of a file that contains iterations but no work, or () without iterations."""
        steps = tuple(
            Step(f"Iteration {number}", Split(span_ns=end - begin, data_wait_ns=wait), begin)
            for number, begin, end, wait in self._iteration_spans()
        )
        ends = [end for _, _, end, _ in self._iteration_spans()]
        return (Device(begin_ns=steps[0].begin_ns, end_ns=max(ends), steps=steps),) if steps else ()


def _task_of(work: Work, event: TraceEvent, stream: int | str) -> _Task:
    name = _CALL_NUMBER.sub("", event.name) if work == "communication" else event.name
    return _Task(work, event.pid, stream, event.begin_ns(), event.length_ns(), name)


def _device_number(file: FileSample) -> int | None:
    name_match = _DEVICE_IN_NAME.search(file.name)
    folder_matches = [match for folder in file.folders if (match := _DEVICE_FOLDER.match(folder))]
    match = folder_matches[-1] if folder_matches else name_match
    return int(match[1]) if match else None


def _recognises(sample: TraceSample) -> bool:
    for event in sample.events:
        if event.cat in _ASCEND_CATEGORIES or event.name.startswith("AscendCL@"):
            return True
        if event.ph == "M" and event.name == "process_name" and event.args().get("name") in _PROCESSES:
            return True
    return begins_like_ascend(sample)


FORMAT = TraceFormat(_NAME, _TOOL, _recognises, _Reader)
