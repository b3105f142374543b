"""Which processes use which card, as `--showpids` tells: AMD's table and JSON rows, Hygon's indented list.

AMD's forms tell how many cards a process uses, not which; only Hygon's list names them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from telemetry_parsers import units
from telemetry_parsers.metrics import reading
from telemetry_parsers.model import Absent, Device, Process, Reading, Report
from telemetry_parsers.text.lines import Line, bus_address

_TABLE = re.compile(r"\s{0,8}PID\s{1,20}PROCESS NAME\s{1,80}GPU\(s\)")
_TITLE = re.compile(r"\s{0,8}(?:KFD process information:|PIDs for KFD processes:|No KFD PIDs currently running)")
_PID = re.compile(r"\s{0,8}PID:\s{0,8}([0-9]{1,10})\s{0,8}\Z")
_PAIR = re.compile(r"\s{1,16}([A-Za-z][^:]{1,40}):\s{0,8}(.{0,200})\Z")
_QUOTED = re.compile(r"'([^']{0,40})'")
_RULE = re.compile(r"\s{0,8}={4}")
_INDEX_KEYS = ("hcu index", "dcu index", "gpu index")


@dataclass(slots=True)
class _Entry:
    """One process of Hygon's list, by key in lower case."""

    pid: int
    values: dict[str, str] = field(default_factory=dict)


def is_pid_list(lines: Sequence[Line]) -> bool:
    """Whether these lines are what `--showpids` prints."""
    return any(_TABLE.match(line.text) or _TITLE.match(line.text) for line in lines)


def read_pids(lines: Sequence[Line], vendor: str, index_space: str) -> Report:
    """The processes by card where the list names the cards; else nothing, since a guess would blame the wrong card."""
    devices: list[Device] = []
    places: dict[int, int] = {}
    processes: list[Process] = []
    for entry in _entries(lines):
        key = next((key for key in _INDEX_KEYS if key in entry.values), "")
        indices = [units.whole(text) for text in _QUOTED.findall(entry.values.get(key, ""))]
        buses = _QUOTED.findall(entry.values.get("pci bus", ""))
        used = units.quantity(entry.values.get("vram used(mib)", ""), units.BYTES, "MiB")
        for position, index in enumerate(indices):
            if index is None:
                continue
            if index not in places:
                places[index] = len(devices)
                bus = bus_address(buses[position]) if len(buses) == len(indices) else None
                devices.append(Device(vendor, index=index, bus_id=bus))
            # One figure for a process on several cards is not that of each.
            memory = used if len(indices) == 1 and not isinstance(used, Absent) else None
            processes.append(Process(places[index], entry.pid, "", memory))
    # Only the rule below the list shows that no process is missing.
    counts = _counts(devices, processes) if any(_RULE.match(line.text) for line in lines[-3:]) else ()
    return Report(
        devices=tuple(devices), readings=counts, processes=tuple(processes), index_space=index_space, form="text"
    )


def _entries(lines: Sequence[Line]) -> list[_Entry]:
    found: list[_Entry] = []
    for line in lines:
        if not line.ended:
            continue
        pid = _PID.match(line.text)
        pair = _PAIR.match(line.text)
        if pid is not None:
            found.append(_Entry(int(pid[1])))
        elif pair is not None and found:
            found[-1].values.setdefault(" ".join(pair[1].lower().split()), pair[2].strip())
    return found


def _counts(devices: Sequence[Device], processes: Sequence[Process]) -> tuple[Reading, ...]:
    return tuple(
        reading(position, "processes", float(sum(process.device == position for process in processes)))
        for position in range(len(devices))
    )
