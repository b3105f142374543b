"""The processes on a device: its three lists together, each process once, with how busy each keeps the device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from telemetry_parsers.library_answers.plain import error_in, mapping, number, text, whole
from telemetry_parsers.library_answers.readings import Readings
from telemetry_parsers.metrics import BY_KEY, in_range
from telemetry_parsers.model import Absent, Plain, Process, Value
from telemetry_parsers.ownership import ProcessKind
from telemetry_parsers.vendors.nvidia.nvml.library import NOT_SUPPORTED_CODE

# Linux gives no larger ones.
_LARGEST_PID = 1 << 22
_MOST = 100_000
_LARGEST_PERCENT = 100
_Key = tuple[int, int | None, int | None]
# A process in several lists is of the kind that says most.
_KINDS: Mapping[str, ProcessKind] = {"Graphics": "graphics", "Compute": "compute", "MPSCompute": "mps"}
_RANKS = {kind: rank for rank, kind in enumerate(_KINDS.values())}


def read(answer: Plain, utilization: Plain, readings: Readings) -> tuple[Process, ...]:
    """The processes of a device; their number is a reading, when every list that there is could be read."""
    processes: dict[_Key, Process] = {}
    values: list[Value] = [
        _list(kind, listed, processes, readings) for kind, listed in mapping(answer).items() if error_in(listed) is None
    ]
    refusals = [
        _refusal(kind, listed, readings) for kind, listed in mapping(answer).items() if error_in(listed) is not None
    ]
    troubles = [value for value in (*values, *refusals) if isinstance(value, Absent)]
    if not values and not troubles:
        return ()
    count: Value = float(len(processes)) if values else Absent.NOT_SUPPORTED
    worst = next((trouble for trouble in troubles if trouble is not Absent.NOT_SUPPORTED), count)
    readings.add("processes", worst, source="processes")
    return _with_utilization(tuple(processes.values()), utilization)


def _with_utilization(processes: tuple[Process, ...], samples: Plain) -> tuple[Process, ...]:
    """The processes with the part of the time that each kept the device busy, where the driver samples it.

    Samples are of processes that did something. So one without a sample was idle, unless the samples are of others: MPS and
    some containers show other pids than the lists, and those of processes that ended stay for a while.
    """
    if not isinstance(samples, list) or len(samples) > _MOST:
        return processes
    percents = dict(sample for sample in map(_sample, samples) if sample is not None)
    idle = 0.0 if percents.keys() <= {process.pid for process in processes} else None
    return tuple(replace(process, utilization_ratio=percents.get(process.pid, idle)) for process in processes)


def _sample(sample: Plain) -> tuple[int, float | None] | None:
    """The process of a sample, and its ratio: none where the driver says more than all of the time."""
    if not isinstance(sample, list) or len(sample) != 2:
        return None
    pid, percent = whole(sample[0], _LARGEST_PID + 1), whole(sample[1], _LARGEST_PERCENT + 1)
    return None if not pid else (pid, None if percent is None else percent / _LARGEST_PERCENT)


def _refusal(kind: str, listed: Plain, readings: Readings) -> Absent:
    """A list that the driver does not have costs nothing: graphics on a card for computing, MPS on an old driver."""
    return (
        Absent.NOT_SUPPORTED if error_in(listed) == NOT_SUPPORTED_CODE else readings.error(listed, f"{kind} processes")
    )


def _list(kind: str, listed: Plain, processes: dict[_Key, Process], readings: Readings) -> Value:
    if not isinstance(listed, list) or len(listed) > _MOST:
        return Absent.NOT_UNDERSTOOD
    entries = [_entry(kind, entry, readings) for entry in listed]
    if any(entry is None for entry in entries):
        readings.complain(f"{kind} processes: entries that are none")
        return Absent.NOT_UNDERSTOOD
    for key, process in (entry for entry in entries if entry is not None):
        before = processes.get(key)
        processes[key] = process if before is None else _both(before, process)
    return float(len(entries))


def _both(before: Process, process: Process) -> Process:
    """What two lists tell of one process."""
    memory = process.memory_used_bytes if before.memory_used_bytes is None else before.memory_used_bytes
    return replace(
        before, memory_used_bytes=memory, kind=max(before.kind, process.kind, key=lambda kind: _RANKS.get(kind, -1))
    )


def _entry(kind: str, entry: Plain, readings: Readings) -> tuple[_Key, Process] | None:
    if not isinstance(entry, list) or len(entry) != 5:
        return None
    pid = whole(entry[0], _LARGEST_PID + 1)
    memory = number(entry[2])
    if not pid or memory is Absent.NOT_UNDERSTOOD:
        return None
    key = (pid, whole(entry[3], 1 << 32), whole(entry[4], 1 << 32))
    instance = "" if key[1] is None else str(key[1])
    used = _used(kind, memory, readings)
    return key, Process(readings.device, pid, text(entry[1]) or "", used, kind=_KINDS.get(kind, ""), instance=instance)


def _used(kind: str, memory: Value, readings: Readings) -> float | None:
    """Its memory; none where the driver does not report it, or reports what no card has (a difference below 0 looks so)."""
    if isinstance(memory, Absent):
        return None
    used = in_range(BY_KEY["memory_used_bytes"], memory)
    if isinstance(used, Absent):
        readings.complain(f"{kind} processes: the memory of one is {memory:.0f} bytes")
        return None
    return used
