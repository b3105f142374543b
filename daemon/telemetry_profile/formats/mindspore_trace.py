"""Reads MindSpore's timelines for MindInsight."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from telemetry_profile.facts.device_timeline import Timeline
from telemetry_profile.facts.kernel_kinds import work_of
from telemetry_profile.facts.trace_facts import clock_of
from telemetry_profile.format_contract import (
    Card,
    Device,
    Facts,
    FileSample,
    TraceEvent,
    TraceFormat,
    TraceSample,
    Work,
)

_NAME, _TOOL = "mindspore-timeline", "MindSpore Profiler"
_FILE_NAME = re.compile(r"(ascend|gpu)_timeline_display_(\d{1,6})\.json")
# The process numbers are from `BaseTimelineGenerator` in MindSpore's source.
_FIRST_OTHER_PID, _AI_CPU_PID, _COMMUNICATION_PID, _GPU_ACTIVITY_PID = 7000, 9000, 10_000, 13_000
_STEP_THREADS = frozenset({"Steps", "100000"})
_SCOPE_THREADS = frozenset({"Scope Name", "GpuOps", "HostCpuOps", "Ops", "100001", "100002", "100003"})
_MERGED_THREADS = frozenset(str(number) for number in range(7997, 8003))
# These operators fetch data or wait for data.
_DATA_OPERATORS = ("InitData", "GetNext", "EndOfSequence")


class _Reader:
    def __init__(self, file: FileSample) -> None:
        match = _FILE_NAME.search(file.name)
        self._timeline = Timeline()
        self._is_gpu = bool(match and match[1] == "gpu")
        self._rank = int(match[2]) if match else None
        self._card_index: int | None = None

    def read_key(self, name: str, value: Any) -> None:  # JSON of any shape
        """Do nothing, because these files have no keys."""

    def read_events(self, events: Sequence[TraceEvent]) -> None:
        for event in events:
            if event.ph == "X":
                thread = str(event.tid)
                if thread in _STEP_THREADS:
                    self._timeline.add_step(f"step {event.name}", event.begin_ns(), event.length_ns())
                elif thread not in _SCOPE_THREADS and thread not in _MERGED_THREADS:
                    self._add_work(event)

    def facts(self) -> Facts:
        self._timeline.set_card("device", Card(self._card_index))
        devices = tuple(self._complete_device(device) for device in self._timeline.devices())
        return self._timeline.facts(_NAME, _TOOL, clock_of(devices), devices)

    def _complete_device(self, device: Device) -> Device:
        """Set the device's rank, and drop its copy times if the file is not from a GPU."""
        device = replace(device, rank=self._rank)
        return device if self._is_gpu else device.without("copy_ns", "exposed_copy_ns")

    def _add_work(self, event: TraceEvent) -> None:
        work = self._work_of(event)
        if work is None:
            return
        grid, block = "", ""
        if self._is_gpu:
            arguments = event.args()
            grid, block = _dimensions(arguments.get("grid_dim")), _dimensions(arguments.get("block_dim"))
        elif isinstance(event.pid, int) and event.pid < _FIRST_OTHER_PID:
            self._card_index = event.pid
        self._timeline.add("device", work, event.begin_ns(), event.length_ns(), event.name, grid, block)

    def _work_of(self, event: TraceEvent) -> Work | None:
        """Return the kind of work that an event shows, or None if it is no work of the device."""
        pid = event.pid
        if pid == _COMMUNICATION_PID:
            return "communication"
        if pid == _AI_CPU_PID:
            return None if event.name.rpartition("/")[2].startswith(_DATA_OPERATORS) else "compute"
        if pid == _GPU_ACTIVITY_PID or (isinstance(pid, int) and pid < _FIRST_OTHER_PID):
            return work_of(event.name)
        return None


def _dimensions(printed: object) -> str:
    match = re.fullmatch(r"(\d{1,10}),(\d{1,10}),(\d{1,10})", printed) if isinstance(printed, str) else None
    return "×".join(match.groups()) if match else ""


def _recognises(sample: TraceSample) -> bool:
    if _FILE_NAME.search(sample.file.name):
        return True
    events = [event for event in sample.events if event.ph == "X" and not event.cat]
    return bool(events) and any(
        event.pid == _AI_CPU_PID or event.args().keys() >= {"op_full_name", "type"} for event in events[:10_000]
    )


FORMAT = TraceFormat(_NAME, _TOOL, _recognises, _Reader)
