"""MindSpore's timelines for MindInsight: ascend_timeline_display_N.json and gpu_timeline_display_N.json.

Which lane holds what is fixed by numbers (`BaseTimelineGenerator` in MindSpore's source): operators have the number of their device.
"""

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
    Split,
    TraceEvent,
    TraceFormat,
    TraceSample,
    Work,
)

_NAME, _TOOL = "mindspore-timeline", "MindSpore Profiler"
_FILE = re.compile(r"(ascend|gpu)_timeline_display_(\d{1,6})\.json")
_FIRST_OTHER_PID, _AI_CPU_PID, _COMMUNICATION_PID, _GPU_ACTIVITY_PID = 7000, 9000, 10_000, 13_000
_STEPS = frozenset({"Steps", "100000"})
_SCOPES = frozenset({"Scope Name", "GpuOps", "HostCpuOps", "Ops", "100001", "100002", "100003"})
_MERGED = frozenset(str(number) for number in range(7997, 8003))
# They fetch data and wait for it: no computation.
_OF_DATA = ("InitData", "GetNext", "EndOfSequence")


class _Reader:
    def __init__(self, clue: Clue) -> None:
        found = _FILE.search(clue.name)
        self._timeline = Timeline()
        self._is_gpu = bool(found and found[1] == "gpu")
        self._rank = int(found[2]) if found else None
        self._index: int | None = None

    def key(self, name: str, value: Any) -> None:  # JSON of any shape
        """These files have no keys beside the events."""

    def events(self, events: Sequence[TraceEvent]) -> None:
        for event in events:
            if event.ph == "X":
                lane = str(event.tid)
                if lane in _STEPS:
                    self._timeline.step(f"step {event.name}", event.begin_ns(), event.length_ns())
                elif lane not in _SCOPES and lane not in _MERGED:
                    self._run(event)

    def facts(self) -> Facts:
        self._timeline.card("device", Card(self._index))
        devices = tuple(self._told(device) for device in self._timeline.devices())
        problems = self._timeline.problems()
        return Facts(_NAME, _TOOL, clock_of(devices), devices=devices, problems=problems)

    def _told(self, device: Device) -> Device:
        """Of Ascend's copies these files tell nothing."""
        device = replace(device, rank=self._rank)
        if self._is_gpu:
            return device
        steps = tuple(replace(step, split=_without_copies(step.split)) for step in device.steps)
        return replace(device, split=_without_copies(device.split), steps=steps)

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
        """What an event is, None where nothing ran on the device."""
        pid = event.pid
        if pid == _COMMUNICATION_PID:
            return "communication"
        if pid == _AI_CPU_PID:
            return None if event.name.rpartition("/")[2].startswith(_OF_DATA) else "compute"
        if pid == _GPU_ACTIVITY_PID or (isinstance(pid, int) and pid < _FIRST_OTHER_PID):
            return work_of(event.name)
        return None


def _without_copies(split: Split) -> Split:
    return replace(split, copy_ns=None, exposed_copy_ns=None)


def _sizes(printed: object) -> str:
    found = re.fullmatch(r"(\d{1,10}),(\d{1,10}),(\d{1,10})", printed) if isinstance(printed, str) else None
    return "×".join(found.groups()) if found else ""


def _recognises(sample: TraceSample) -> bool:
    """By the name of the file, since the events have nothing of their own; copies under other names are known by their lanes."""
    if _FILE.search(sample.clue.name):
        return True
    named = [event for event in sample.events if event.ph == "X" and not event.cat]
    return bool(named) and any(
        event.pid == _AI_CPU_PID or event.args().keys() >= {"op_full_name", "type"} for event in named[:10_000]
    )


FORMAT = TraceFormat(_NAME, _TOOL, _recognises, _Reader)
