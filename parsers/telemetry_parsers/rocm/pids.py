"""Which processes use which card, as `--showpids` prints them: AMD's table and JSON rows, Hygon's indented list.

AMD's forms say how many cards a process uses, not which; only Hygon's list names them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from telemetry_parsers import units
from telemetry_parsers.model import Absent, Device, Process
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import metric
from telemetry_parsers.text.complaints import listed_twice
from telemetry_parsers.text.lines import Line, bus_address, quote

_TABLE = re.compile(r"\s{0,8}PID\s{1,20}PROCESS NAME\s{1,80}GPU\(s\)")
_TITLE = re.compile(r"\s{0,8}(?:KFD process information:|PIDs for KFD processes:|No KFD PIDs currently running)")
_PID = re.compile(r"\s{0,8}PID:\s{0,8}([0-9]{1,10})\s{0,8}\Z")
_PAIR = re.compile(r"\s{0,16}([A-Za-z][^:]{1,40}):\s{0,8}(.{0,2000})\Z")
_QUOTED = re.compile(r"'([^']{0,40})'")
_RULE = re.compile(r"\s{0,8}={4}")
_USED = re.compile(r"vram used ?\(([a-z]{1,3})\)\Z")
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
        """The list of the cards that it uses, with its brackets; empty where it is not whole."""
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


def read_pids(lines: Sequence[Line], draft: Draft) -> None:
    """Put the processes into the draft where the list names their cards; else a guess would blame the wrong card."""
    listed = _listed(lines)
    seen: set[tuple[int, int]] = set()
    twice = dict.fromkeys(entry.pid for entry in listed.entries if not _take(entry, seen, draft))
    for pid in twice:
        draft.complain(f"PID {pid}", listed_twice("the process"))
    if listed.stray is not None:
        draft.complain(listed.stray.where, f"a line of no process, whose own is lost: {quote(listed.stray.text)}")
    elif listed.entries and not listed.is_whole:
        draft.complain(lines[-1].where, f"the list of processes is cut off here: {quote(lines[-1].text)}")
    elif all(entry.cards for entry in listed.entries):
        count_processes(draft)
    for entry in listed.entries:
        if not entry.cards:
            draft.complain(f"PID {entry.pid}", "no list of the cards that it uses")


def _take(entry: _Entry, seen: set[tuple[int, int]], draft: Draft) -> bool:
    """Put one process into the draft, for each of its cards; whether none was there before."""
    indices = [units.whole(text) for text in _QUOTED.findall(entry.cards)]
    buses = _QUOTED.findall(entry.values.get("pci bus", ""))
    # One figure for a process on several cards is not that of each.
    used = _used_bytes(entry.values) if len(indices) == 1 else None
    is_new = True
    for position, index in enumerate(indices):
        if index is None:
            continue
        bus = bus_address(buses[position]) if len(buses) == len(indices) else None
        device = draft.device(index, Device(draft.vendor, index, bus_id=bus))
        if (device, entry.pid) in seen:
            is_new = False
        else:
            seen.add((device, entry.pid))
            draft.processes.append(Process(device, entry.pid, entry.first(_NAME_KEYS), used))
    return is_new


def count_processes(draft: Draft) -> None:
    """Give each device the number of its processes, of a list that is whole."""
    users = Counter(process.device for process in draft.processes)
    for device in range(draft.size()):
        draft.give(device, metric("processes"), float(users[device]))


def _listed(lines: Sequence[Line]) -> _List:
    listed = _List()
    for line in lines:
        if not line.ended:
            continue
        pid = _PID.match(line.text)
        pair = _PAIR.match(line.text)
        key = " ".join(pair[1].lower().split()) if pair is not None else ""
        if pid is not None:
            listed.entries.append(_Entry(int(pid[1])))
            listed.is_whole = False
        elif listed.entries and not listed.is_whole:
            listed.is_whole = _RULE.match(line.text) is not None
            if pair is not None and key not in listed.entries[-1].values:
                listed.entries[-1].values[key] = pair[2].strip()
            elif pair is not None:
                # The same key again: the line that begins the next process is lost.
                listed.stray = listed.stray or line
        elif key in _OF_PROCESS:
            listed.stray = listed.stray or line
    return listed


def _used_bytes(values: Mapping[str, str]) -> float | None:
    """The memory of a process, in whichever unit its key names."""
    for key, text in values.items():
        match = _USED.match(key)
        if match is not None:
            used = units.quantity(text, units.BYTES, units.spelled(match[1], units.BYTES))
            return None if isinstance(used, Absent) or used < 0 else used
    return None
