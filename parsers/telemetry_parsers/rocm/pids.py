"""Which processes use which card, as `--showpids` tells: AMD's table and JSON rows, Hygon's indented list.

AMD's forms tell how many cards a process uses, not which; only Hygon's list names them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from telemetry_parsers import units
from telemetry_parsers.metrics import reading
from telemetry_parsers.model import Absent, Device, Problem, Process, Reading, Report
from telemetry_parsers.text.answers import capped
from telemetry_parsers.text.lines import Line, bus_address, quote

_TABLE = re.compile(r"\s{0,8}PID\s{1,20}PROCESS NAME\s{1,80}GPU\(s\)")
_TITLE = re.compile(r"\s{0,8}(?:KFD process information:|PIDs for KFD processes:|No KFD PIDs currently running)")
_PID = re.compile(r"\s{0,8}PID:\s{0,8}([0-9]{1,10})\s{0,8}\Z")
_PAIR = re.compile(r"\s{0,16}([A-Za-z][^:]{1,40}):\s{0,8}(.{0,2000})\Z")
_QUOTED = re.compile(r"'([^']{0,40})'")
_RULE = re.compile(r"\s{0,8}={4}")
_USED = re.compile(r"vram used ?\(([a-z]{1,3})\)\Z")
_USED_UNITS = {"mib": "MiB", "mb": "MiB", "gib": "GiB", "gb": "GiB", "kib": "KiB", "b": "B"}
_INDEX_KEYS = ("hcu index", "dcu index", "gpu index")
_OF_PROCESS = frozenset({"pasid", *_INDEX_KEYS, "sdma used"})
_NAME_KEYS = ("process name", "name")


@dataclass(slots=True)
class _Entry:
    """One process of Hygon's list, by key in lower case."""

    pid: int
    values: dict[str, str] = field(default_factory=dict)

    @property
    def cards(self) -> str:
        """The list of the cards that it uses, with its brackets; empty where it is not told whole."""
        text = self.first(_INDEX_KEYS)
        return text if text.startswith("[") and text.endswith("]") else ""

    def first(self, keys: Sequence[str]) -> str:
        """The text of the first of these keys that is there."""
        return next((self.values[key] for key in keys if key in self.values), "")


@dataclass(slots=True)
class _List:
    """The processes, and whether a rule below them shows that none is missing; `stray` is a line of none of them."""

    entries: list[_Entry] = field(default_factory=list)
    is_whole: bool = False
    stray: Line | None = None


def is_pid_list(lines: Sequence[Line]) -> bool:
    """Whether these lines are what `--showpids` prints, also without its title."""
    if any(_TABLE.match(line.text) or _TITLE.match(line.text) for line in lines):
        return True
    return any(entry.first(_INDEX_KEYS) for entry in _listed(lines).entries)


def read_pids(lines: Sequence[Line], vendor: str, index_space: str) -> Report:
    """The processes by card where the list names the cards; else nothing, since a guess would blame the wrong card."""
    devices: list[Device] = []
    places: dict[int, int] = {}
    processes: list[Process] = []
    seen: set[tuple[int, int]] = set()
    twice: dict[int, None] = {}
    listed = _listed(lines)
    for entry in listed.entries:
        indices = [units.whole(text) for text in _QUOTED.findall(entry.cards)]
        buses = _QUOTED.findall(entry.values.get("pci bus", ""))
        # One figure for a process on several cards is not that of each.
        used = _used_bytes(entry.values) if len(indices) == 1 else None
        for position, index in enumerate(indices):
            if index is None:
                continue
            if index not in places:
                places[index] = len(devices)
                bus = bus_address(buses[position]) if len(buses) == len(indices) else None
                devices.append(Device(vendor, index=index, bus_id=bus))
            if (places[index], entry.pid) in seen:
                twice[entry.pid] = None
                continue
            seen.add((places[index], entry.pid))
            processes.append(Process(places[index], entry.pid, entry.first(_NAME_KEYS), used))
    is_whole = listed.is_whole and listed.stray is None and all(entry.cards for entry in listed.entries)
    counts = _counts(devices, processes) if is_whole else ()
    found = [Problem(f"PID {pid}", "the process is listed a second time; the first is kept") for pid in twice]
    if listed.stray is not None:
        found.append(
            Problem(listed.stray.where, f"a line of no process, whose own is lost: {quote(listed.stray.text)}")
        )
    elif listed.entries and not listed.is_whole:
        found.append(Problem(lines[-1].where, f"the list of processes is cut off here: {quote(lines[-1].text)}"))
    found += [
        Problem(f"PID {entry.pid}", "no list of the cards that it uses") for entry in listed.entries if not entry.cards
    ]
    return Report(
        devices=tuple(devices), readings=counts, processes=tuple(processes), problems=capped(found),
        index_space=index_space, form="text",
    )  # fmt: skip


def _listed(lines: Sequence[Line]) -> _List:
    found = _List()
    for line in lines:
        if not line.ended:
            continue
        pid = _PID.match(line.text)
        pair = _PAIR.match(line.text)
        if pid is not None:
            found.entries.append(_Entry(int(pid[1])))
            found.is_whole = False
        elif found.entries and not found.is_whole:
            found.is_whole = _RULE.match(line.text) is not None
            key = " ".join(pair[1].lower().split()) if pair is not None else ""
            if pair is not None and key not in found.entries[-1].values:
                found.entries[-1].values[key] = pair[2].strip()
            elif pair is not None:
                # The same key again: the line that begins the next process is lost.
                found.stray = found.stray or line
        elif pair is not None and " ".join(pair[1].lower().split()) in _OF_PROCESS:
            found.stray = found.stray or line
    return found


def _used_bytes(values: Mapping[str, str]) -> float | None:
    """The memory of a process, in whichever unit its key names."""
    for key, text in values.items():
        match = _USED.match(key)
        if match is not None and match[1] in _USED_UNITS:
            used = units.quantity(text, units.BYTES, _USED_UNITS[match[1]])
            return None if isinstance(used, Absent) or used < 0 else used
    return None


def _counts(devices: Sequence[Device], processes: Sequence[Process]) -> tuple[Reading, ...]:
    return tuple(
        reading(position, "processes", float(sum(process.device == position for process in processes)))
        for position in range(len(devices))
    )
