"""What this machine's kernel tells of the processes on its cards, read by the command itself with the rights of who runs it."""

from __future__ import annotations

from dataclasses import replace

from telemetry_daemon.commands.rendering import Answer
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.proc import ProcReader, command_line
from telemetry_parsers.model import MergedDevice, Process, Snapshot
from telemetry_parsers.owners.proc import PARSER
from telemetry_parsers.ownership import Task

# A process that began later than this after it was listed is another one with its number.
_CLOCKS_APART_SECONDS = 1.0


def with_processes(answer: Answer) -> Answer:
    """The answer of this machine with all that may be read of its processes now; one that has ended stays as it was reported."""
    snapshot = answer.snapshot
    pids = tuple({process.pid for device in snapshot.devices for process in device.processes})
    reader = ProcReader("", environment=False)
    (poll,) = PARSER.polls
    report = PARSER.parse(reader.read(poll, Targets(pids=pids)))
    same = _same(snapshot, {task.pid: task for task in report.tasks})
    devices = tuple(_with_tasks(device, same) for device in snapshot.devices)
    command_lines = {pid: command_line(pid) for pid in same}
    return replace(answer, snapshot=replace(snapshot, devices=devices), command_lines=command_lines)


def _same(snapshot: Snapshot, tasks: dict[int, Task]) -> dict[int, Task]:
    """The tasks that are the processes which were listed, and not later ones with their numbers."""
    listed = {process.pid: process for device in snapshot.devices for process in device.processes}
    return {pid: task for pid, task in tasks.items() if _is_same(listed[pid], task, snapshot.wall_time)}


def _is_same(process: Process, task: Task, seen: float) -> bool:
    if task.started is None:
        return False
    if process.started is not None:
        return abs(process.started - task.started) <= _CLOCKS_APART_SECONDS
    return task.started <= seen + _CLOCKS_APART_SECONDS


def _with_tasks(device: MergedDevice, tasks: dict[int, Task]) -> MergedDevice:
    processes = tuple(
        _with_task(process, tasks[process.pid]) if process.pid in tasks else process for process in device.processes
    )
    return replace(device, processes=processes)


def _with_task(process: Process, task: Task) -> Process:
    """The process as the kernel tells of it; its owner is the one that was told, if one was."""
    return replace(
        process,
        started=task.started,
        user=task.user or process.user,
        command=task.command or process.command,
        container=task.container or process.container,
        owner=process.owner or task.owner,
    )
