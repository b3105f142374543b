"""Reads processes and their cards: AMD's `--showpids` with `--showpidgpus`, which names the cards, and Hygon's list."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from telemetry_parsers import units
from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.model import Absent, Device, Process
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import metric
from telemetry_parsers.text.answers import listed_twice
from telemetry_parsers.text.lines import Line, bus_address, quote

_ROW = re.compile(
    r"\s{0,8}([0-9]{1,10})\s{1,40}(\S.{0,60}?)\s{1,40}(?:[0-9]{1,4}|UNKNOWN)\s{1,40}([0-9]{1,20}|UNKNOWN)"
    r"\s{1,40}(?:[0-9]{1,20}|UNKNOWN)\s{1,40}(?:[0-9]{1,20}|UNKNOWN)\s{0,40}\Z"
)
_USES = re.compile(r"\s{0,8}PID ([0-9]{1,10}) is using ([0-9]{1,4}) DRM device\(s\):?\s{0,8}\Z")
_INDICES = re.compile(r"\s{0,8}[0-9]{1,4}(?: [0-9]{1,4})*\s{0,8}\Z")
_RULE_BELOW_CARDS = re.compile(r"\s{0,8}={8,200}\s{0,8}\Z")
_TITLE_OF_CARDS = re.compile(r"\s{0,8}={3,200} (?:KFD Processes|GPUs Indexed by PID) ={3,200}\s{0,8}\Z")
_LIST = re.compile(r"\s{0,8}PID\s{1,20}PROCESS NAME\s")
_NONE = "No KFD PIDs currently running"


@dataclass(slots=True)
class _ProcessCards:
    """A process, the printed number of its cards, and the cards that were listed so far."""

    pid: int
    count: int
    cards: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Usage:
    """AMD's list of processes. `stray_line` has cards of an unknown process; `open_title` is a title without a list."""

    processes: dict[int, _ProcessCards] = field(default_factory=dict)
    names: dict[int, tuple[str, float | None]] = field(default_factory=dict)
    is_whole: bool = False
    stray_line: Line | None = None
    open_title: Line | None = None


def usage_in(lines: Sequence[Line]) -> Usage | None:
    """Return AMD's list of the processes with their cards, or None if the text has no such list."""
    usage = Usage()
    process: _ProcessCards | None = None
    for line in lines:
        match = _USES.match(line.text) if line.ended else None
        if match is not None:
            process, usage.open_title = _ProcessCards(int(match[1]), int(match[2])), None
            usage.processes.setdefault(process.pid, process)
        elif process is not None:
            process = _continue_list(process, line, usage)
        elif line.ended:
            _read_other_line(line, usage)
    # A title without a list, and without the message that there are no processes: the list is missing.
    usage.stray_line = usage.stray_line or usage.open_title
    return usage if usage.processes or usage.is_whole or usage.open_title is not None else None


def _read_other_line(line: Line, usage: Usage) -> None:
    """Read a line outside the card list of a process."""
    if line.text.strip() == _NONE:
        usage.is_whole, usage.open_title = True, None
    elif _TITLE_OF_CARDS.match(line.text):
        usage.open_title = line
    elif _LIST.match(line.text):
        usage.open_title = None
    elif _INDICES.match(line.text):
        usage.stray_line = line
    elif (row := _ROW.match(line.text)) is not None:
        _read_row(row, usage)


def _continue_list(process: _ProcessCards, line: Line, usage: Usage) -> _ProcessCards | None:
    """Read a line of a process's card list. Return the process, or None at the end of the list."""
    if not line.ended:
        return None
    if _INDICES.match(line.text):
        process.cards.extend(int(word) for word in line.text.split())
    elif line.text.strip():
        usage.is_whole = _RULE_BELOW_CARDS.match(line.text) is not None
        return None
    return process


def _read_row(row: re.Match[str], usage: Usage) -> None:
    used = units.quantity(row[3], units.BYTES, "B")
    pid = int(row[1])
    # With the argument `details`, a process has a row for each of its cards, but these rows do not name the cards.
    memory = None if isinstance(used, Absent) or pid in usage.names else used
    usage.names[pid] = (row[2], memory)


def read_usage(lines: Sequence[Line], draft: Draft) -> bool:
    """Add the processes and their cards to the draft. Return whether the text has a list of them."""
    usage = usage_in(lines)
    if usage is None:
        return False
    # The tool prints the number of cards of each process. A list of another length is truncated.
    complete = [process for process in usage.processes.values() if len(process.cards) == process.count]
    draft.processes.extend(
        _process(draft.device(card), process, usage.names) for process in complete for card in process.cards
    )
    if not usage.is_whole or usage.stray_line is not None or len(complete) < len(usage.processes):
        where = "processes" if usage.stray_line is None else usage.stray_line.where
        draft.complain(where, "the list of processes by card is incomplete; processes are not counted")
    else:
        _count_processes(draft)
    return True


def _process(device: int, process: _ProcessCards, names: Mapping[int, tuple[str, float | None]]) -> Process:
    name, memory = names.get(process.pid, ("", None))
    # The printed memory is the sum over the process's cards, so it is stored only for a process on one card.
    return Process(device, process.pid, "" if name == "UNKNOWN" else name, memory if process.count == 1 else None)


_TABLE = re.compile(r"\s{0,8}PID\s{1,20}PROCESS NAME\s{1,80}GPU\(s\)")
_TITLE = re.compile(r"\s{0,8}(?:KFD process information:|PIDs for KFD processes:|No KFD PIDs currently running)")
_PID = re.compile(r"\s{0,8}PID:\s{0,8}([0-9]{1,10})\s{0,8}\Z")
_PAIR = re.compile(r"\s{0,16}([A-Za-z][^:]{1,40}):\s{0,8}(.{0,2000})\Z")
_QUOTED = re.compile(r"'([^']{0,40})'")
_RULE = re.compile(r"\s{0,8}={4}")
_USED = re.compile(r"vram used ?\(([a-z]{1,3})\)\Z")
_INDEX_KEYS = ("hcu index", "dcu index", "gpu index")
_KEYS_OF_PROCESS = frozenset({"pasid", *_INDEX_KEYS, "sdma used"})
_NAME_KEYS = ("process name", "name")


@dataclass(slots=True)
class _Entry:
    """One process of Hygon's list. The keys of `values` are in lower case."""

    pid: int
    values: dict[str, str] = field(default_factory=dict)

    @property
    def cards(self) -> str:
        """Return the printed list of the process's cards; empty if it is incomplete."""
        text = self.first_text(_INDEX_KEYS)
        return text if text.startswith("[") and text.endswith("]") else ""

    def first_text(self, keys: Sequence[str]) -> str:
        """Return the text of the first of these keys that was printed; empty without one."""
        return next((self.values[key] for key in keys if key in self.values), "")


@dataclass(slots=True)
class _List:
    """The processes of Hygon's list. `stray_line` is a line that belongs to none of them."""

    entries: list[_Entry] = field(default_factory=list)
    is_whole: bool = False
    stray_line: Line | None = None


def is_pid_list(lines: Sequence[Line]) -> bool:
    """Return whether these lines are the output of `--showpids`, possibly without its title."""
    if any(_TABLE.match(line.text) or _TITLE.match(line.text) for line in lines):
        return True
    return any(entry.first_text(_INDEX_KEYS) for entry in _read_list(lines).entries)


def read_pids(lines: Sequence[Line], draft: Draft) -> None:
    """Add the processes to the draft, except those whose cards are not named."""
    pid_list = _read_list(lines)
    pairs: set[tuple[int, int]] = set()
    repeated_pids = dict.fromkeys(entry.pid for entry in pid_list.entries if not _add_process(entry, pairs, draft))
    for pid in repeated_pids:
        draft.complain(f"PID {pid}", listed_twice("the process"))
    if pid_list.stray_line is not None:
        draft.complain(pid_list.stray_line.where, f"a line without its process: {quote(pid_list.stray_line.text)}")
    elif pid_list.entries and not pid_list.is_whole:
        draft.complain(lines[-1].where, f"the list of processes is cut off here: {quote(lines[-1].text)}")
    elif all(entry.cards for entry in pid_list.entries):
        _count_processes(draft)
    for entry in pid_list.entries:
        if not entry.cards:
            draft.complain(f"PID {entry.pid}", "the list of its cards is missing")


def _add_process(entry: _Entry, listed_pairs: set[tuple[int, int]], draft: Draft) -> bool:
    """Add a process to the draft for each of its cards. Return False if it is listed twice for a card."""
    indices = [units.whole(text) for text in _QUOTED.findall(entry.cards)]
    buses = _QUOTED.findall(entry.values.get("pci bus", ""))
    # For a process on several cards, the printed memory is the sum and is not stored.
    used = _used_bytes(entry.values) if len(indices) == 1 else None
    is_new = True
    for position, index in enumerate(indices):
        if index is None:
            continue
        bus = bus_address(buses[position]) if len(buses) == len(indices) else None
        device = draft.device(index, Device(draft.vendor, index, bus_id=bus))
        if (device, entry.pid) in listed_pairs:
            is_new = False
        else:
            listed_pairs.add((device, entry.pid))
            draft.processes.append(Process(device, entry.pid, entry.first_text(_NAME_KEYS), used))
    return is_new


def _count_processes(draft: Draft) -> None:
    """Set the number of processes of each device. The list must be complete."""
    counts = Counter(process.device for process in draft.processes)
    for device in range(draft.device_count()):
        draft.set_value(device, metric("processes"), float(counts[device]))


def _read_list(lines: Sequence[Line]) -> _List:
    pid_list = _List()
    for line in lines:
        if not line.ended:
            continue
        pid = _PID.match(line.text)
        pair = _PAIR.match(line.text)
        key = " ".join(pair[1].lower().split()) if pair is not None else ""
        if pid is not None:
            pid_list.entries.append(_Entry(int(pid[1])))
            pid_list.is_whole = False
        elif pid_list.entries and not pid_list.is_whole:
            pid_list.is_whole = _RULE.match(line.text) is not None
            if pair is not None and key not in pid_list.entries[-1].values:
                pid_list.entries[-1].values[key] = pair[2].strip()
            elif pair is not None:
                # A repeated key: the first line of the next process is missing.
                pid_list.stray_line = pid_list.stray_line or line
        elif key in _KEYS_OF_PROCESS:
            pid_list.stray_line = pid_list.stray_line or line
    return pid_list


def _used_bytes(values: Mapping[str, str]) -> float | None:
    """Return the memory of a process, in the unit that its key names."""
    for key, text in values.items():
        match = _USED.match(key)
        if match is not None:
            used = units.quantity(text, units.BYTES, units.spelled(match[1], units.BYTES))
            return None if isinstance(used, Absent) or used < 0 else used
    return None
