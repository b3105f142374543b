"""MindSpore's timelines for MindInsight: ascend_timeline_display_N.json and gpu_timeline_display_N.json."""

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
    Clue,
    Device,
    Facts,
    TraceEvent,
    TraceFormat,
    TraceSample,
    Work,
)

_NAME, _TOOL = "mindspore-timeline", "MindSpore Profiler"
_FILE = re.compile(r"(ascend|gpu)_timeline_display_(\d{1,6})\.json")
# The numbers of lanes as in `BaseTimelineGenerator` of MindSpore's source; operators have the number of their device.
_FIRST_OTHER_PID, _AI_CPU_PID, _COMMUNICATION_PID, _GPU_ACTIVITY_PID = 7000, 9000, 10_000, 13_000
_STEPS = frozenset({"Steps", "100000"})
_SCOPES = frozenset({"Scope Name", "GpuOps", "HostCpuOps", "Ops", "100001", "100002", "100003"})
_MERGED = frozenset(str(number) for number in range(7997, 8003))
# Operators that fetch data or wait for data, and do not compute.
_OF_DATA = ("InitData", "GetNext", "EndOfSequence")


class _Reader:
    def __init__(self, clue: Clue) -> None:
        found = _FILE.search(clue.name)
        self._timeline = Timeline()
        self._is_gpu = bool(found and found[1] == "gpu")
        self._rank = int(found[2]) if found else None
        self._index: int | None = None

    def key(self, name: str, value: Any) -> None:  # JSON of any shape
        """Ignore the keys of the document: these files have none."""

    def events(self, events: Sequence[TraceEvent]) -> None:
        for event in events:
            if event.ph == "X":
                lane = str(event.tid)
                if lane in _STEPS:
                    self._timeline.step(f"step {event.name}", event.begin_ns(), event.length_ns())
                elif lane not in _SCOPES and lane not in _MERGED:
                    self._run(event)

    def facts(self) -> Facts:
        self._timeline.set_card("device", Card(self._index))
        devices = tuple(self._limited(device) for device in self._timeline.devices())
        return self._timeline.facts(_NAME, _TOOL, clock_of(devices), devices)

    def _limited(self, device: Device) -> Device:
        """Return the device with its rank, and without copies, which the files of Ascend do not contain."""
        device = replace(device, rank=self._rank)
        return device if self._is_gpu else device.without("copy_ns", "exposed_copy_ns")

    def _run(self, event: TraceEvent) -> None:
        work = self._work(event)
        if work is None:
            return
        grid, block = "", ""
        if self._is_gpu:
            arguments = event.args()
            grid, block = _sizes(arguments.get("grid_dim")), _sizes(arguments.get("block_dim"))
        elif isinstance(event.pid, int) and event.pid < _FIRST_OTHER_PID:
            self._index = event.pid
        self._timeline.add("device", work, event.begin_ns(), event.length_ns(), event.name, grid, block)

    def _work(self, event: TraceEvent) -> Work | None:
        """Return the kind of work of an event, None if the event is not work of the device."""
        pid = event.pid
        if pid == _COMMUNICATION_PID:
            return "communication"
        if pid == _AI_CPU_PID:
            return None if event.name.rpartition("/")[2].startswith(_OF_DATA) else "compute"
        if pid == _GPU_ACTIVITY_PID or (isinstance(pid, int) and pid < _FIRST_OTHER_PID):
            return work_of(event.name)
        return None


def _sizes(printed: object) -> str:
    found = re.fullmatch(r"(\d{1,10}),(\d{1,10}),(\d{1,10})", printed) if isinstance(printed, str) else None
    return "×".join(found.groups()) if found else ""


def _recognises(sample: TraceSample) -> bool:
    """Return whether the name of the file or the numbers of the lanes are MindSpore's."""
    if _FILE.search(sample.clue.name):
        return True
    named = [event for event in sample.events if event.ph == "X" and not event.cat]
    return bool(named) and any(
        event.pid == _AI_CPU_PID or event.args().keys() >= {"op_full_name", "type"} for event in named[:10_000]
    )


FORMAT = TraceFormat(_NAME, _TOOL, _recognises, _Reader)
