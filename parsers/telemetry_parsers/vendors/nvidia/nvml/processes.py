"""The processes on a device: its three lists together, each process once."""

from __future__ import annotations

from telemetry_parsers.library_answers.plain import error_in, mapping, number, text, whole
from telemetry_parsers.library_answers.readings import Readings
from telemetry_parsers.metrics import BY_KEY, in_range
from telemetry_parsers.model import Absent, Plain, Process, Value
from telemetry_parsers.vendors.nvidia.nvml.library import NOT_SUPPORTED_CODE

# Linux gives no larger ones.
_LARGEST_PID = 1 << 22
_MOST = 100_000
_Key = tuple[int, int | None, int | None]


def read(answer: Plain, readings: Readings) -> tuple[Process, ...]:
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
    return tuple(processes.values())


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
        if before is None or before.memory_used_bytes is None:
            processes[key] = process
    return float(len(entries))


def _entry(kind: str, entry: Plain, readings: Readings) -> tuple[_Key, Process] | None:
    if not isinstance(entry, list) or len(entry) != 5:
        return None
    pid = whole(entry[0], _LARGEST_PID + 1)
    memory = number(entry[2])
    if not pid or memory is Absent.NOT_UNDERSTOOD:
        return None
    key = (pid, whole(entry[3], 1 << 32), whole(entry[4], 1 << 32))
    return key, Process(readings.device, pid, text(entry[1]) or "", _used(kind, memory, readings))


def _used(kind: str, memory: Value, readings: Readings) -> float | None:
    """Its memory; none where the driver does not report it, or reports what no card has (a difference below 0 looks so)."""
    if isinstance(memory, Absent):
        return None
    used = in_range(BY_KEY["memory_used_bytes"], memory)
    if isinstance(used, Absent):
        readings.complain(f"{kind} processes: the memory of one is {memory:.0f} bytes")
        return None
    return used
