"""What the kernel tells of processes, put onto the devices that they run on: memory that no list tells, and ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from telemetry_parsers.merge.ranks import RANK_METRIC
from telemetry_parsers.model import MergedDevice, MergedReading, Process
from telemetry_parsers.ownership import Task

MOST_RANKS = 16
SOURCE = "proc"


def with_memory(devices: Sequence[MergedDevice], tasks: Mapping[int, Task]) -> tuple[MergedDevice, ...]:
    """The devices whose processes have the memory that their open files tell, where the list of processes does not."""
    if not any(task.holds for task in tasks.values()):
        return tuple(devices)
    # Parts of a card have its address: what is held of which of them is not told.
    cards = Counter(device.bus_id for device in devices)
    return tuple(_filled(device, tasks) if cards[device.bus_id] == 1 else device for device in devices)


def ranks(processes: Sequence[Process], tasks: Mapping[int, Task]) -> tuple[MergedReading, ...]:
    """A reading for each rank of these processes; children that inherit a rank add none."""
    told = {tasks[process.pid].rank for process in processes if process.pid in tasks}
    known = sorted(rank for rank in told if rank is not None)
    return tuple(MergedReading(RANK_METRIC, str(rank), 1.0, SOURCE) for rank in known[:MOST_RANKS])


def _filled(device: MergedDevice, tasks: Mapping[int, Task]) -> MergedDevice:
    processes = tuple(
        replace(process, memory_used_bytes=_held(tasks[process.pid], device.bus_id))
        if process.memory_used_bytes is None and process.pid in tasks
        else process
        for process in device.processes
    )
    return device if processes == device.processes else replace(device, processes=processes)


def _held(task: Task, bus_id: str | None) -> float | None:
    return next((hold.memory_bytes for hold in task.holds if hold.bus_id == bus_id), None)
