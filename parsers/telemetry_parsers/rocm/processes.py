"""Reads the lists of processes that rocm-smi and hy-smi print."""

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

_NAME_ROW = re.compile(
    r"\s{0,8}([0-9]{1,10})\s{1,40}(\S.{0,60}?)\s{1,40}(?:[0-9]{1,4}|UNKNOWN)\s{1,40}([0-9]{1,20}|UNKNOWN)"
    r"\s{1,40}(?:[0-9]{1,20}|UNKNOWN)\s{1,40}(?:[0-9]{1,20}|UNKNOWN)\s{0,40}\Z"
)
_CARD_COUNT_LINE = re.compile(r"\s{0,8}PID ([0-9]{1,10}) is using ([0-9]{1,4}) DRM device\(s\):?\s{0,8}\Z")
_CARD_NUMBERS = re.compile(r"\s{0,8}[0-9]{1,4}(?: [0-9]{1,4})*\s{0,8}\Z")
_RULE_BELOW_LIST = re.compile(r"\s{0,8}={8,200}\s{0,8}\Z")
_LIST_TITLE = re.compile(r"\s{0,8}={3,200} (?:KFD Processes|GPUs Indexed by PID) ={3,200}\s{0,8}\Z")
_NAME_HEADING = re.compile(r"\s{0,8}PID\s{1,20}PROCESS NAME\s")
_NO_PROCESSES = "No KFD PIDs currently running"


@dataclass(slots=True)
class _ProcessCards:
    """A process, its printed card count, and the cards that were read so far."""

    pid: int
    card_count: int
    cards: list[int] = field(default_factory=list)


@dataclass(slots=True)
class AmdProcessList:
    """The processes that rocm-smi lists. A `stray_line` shows that the list is incomplete."""

    process_by_pid: dict[int, _ProcessCards] = field(default_factory=dict)
    name_and_memory_by_pid: dict[int, tuple[str, float | None]] = field(default_factory=dict)
    is_complete: bool = False
    stray_line: Line | None = None
    open_title: Line | None = None


def find_amd_list(lines: Sequence[Line]) -> AmdProcessList | None:
    """Return rocm-smi's list of processes and their cards, or None if the text has no such list."""
    amd_list = AmdProcessList()
    process: _ProcessCards | None = None
    for line in lines:
        match = _CARD_COUNT_LINE.match(line.text) if line.ended else None
        if match is not None:
            process, amd_list.open_title = _ProcessCards(int(match[1]), int(match[2])), None
            amd_list.process_by_pid.setdefault(process.pid, process)
        elif process is not None:
            process = _read_line_below_process(process, line, amd_list)
        elif line.ended:
            _read_other_line(line, amd_list)
    # The list is missing if the title is followed neither by processes nor by a "no processes" message.
    amd_list.stray_line = amd_list.stray_line or amd_list.open_title
    return amd_list if amd_list.process_by_pid or amd_list.is_complete or amd_list.open_title is not None else None


def _read_other_line(line: Line, amd_list: AmdProcessList) -> None:
    if line.text.strip() == _NO_PROCESSES:
        amd_list.is_complete, amd_list.open_title = True, None
    elif _LIST_TITLE.match(line.text):
        amd_list.open_title = line
    elif _NAME_HEADING.match(line.text):
        amd_list.open_title = None
    elif _CARD_NUMBERS.match(line.text):
        amd_list.stray_line = line
    elif (row := _NAME_ROW.match(line.text)) is not None:
        _read_name_row(row, amd_list)


def _read_line_below_process(process: _ProcessCards, line: Line, amd_list: AmdProcessList) -> _ProcessCards | None:
    """Read a line below a process. Return None if the line ends the process's list of cards."""
    if not line.ended:
        return None
    if _CARD_NUMBERS.match(line.text):
        process.cards.extend(int(word) for word in line.text.split())
    elif line.text.strip():
        amd_list.is_complete = _RULE_BELOW_LIST.match(line.text) is not None
        return None
    return process


def _read_name_row(row: re.Match[str], amd_list: AmdProcessList) -> None:
    used = units.quantity(row[3], units.BYTES, "B")
    pid = int(row[1])
    # `--showpids details` prints a row for each card of a process, but the rows do not name the cards.
    memory = None if isinstance(used, Absent) or pid in amd_list.name_and_memory_by_pid else used
    amd_list.name_and_memory_by_pid[pid] = (row[2], memory)


def read_amd_list(lines: Sequence[Line], draft: Draft) -> bool:
    """Add the processes that rocm-smi lists to the draft. Return False if the text has no list."""
    amd_list = find_amd_list(lines)
    if amd_list is None:
        return False
    processes = amd_list.process_by_pid.values()
    complete_processes = [process for process in processes if len(process.cards) == process.card_count]
    draft.processes.extend(
        _to_process(draft.device(card), process, amd_list) for process in complete_processes for card in process.cards
    )
    if not amd_list.is_complete or amd_list.stray_line is not None or len(complete_processes) < len(processes):
        where = "processes" if amd_list.stray_line is None else amd_list.stray_line.where
        draft.add_problem(where, "the list of processes by card is incomplete, so processes are not counted")
    else:
        _count_processes(draft)
    return True


def _to_process(device: int, process: _ProcessCards, amd_list: AmdProcessList) -> Process:
    name, memory = amd_list.name_and_memory_by_pid.get(process.pid, ("", None))
    # The printed memory is a sum over cards, so it is stored only for a process on one card.
    return Process(device, process.pid, "" if name == "UNKNOWN" else name, memory if process.card_count == 1 else None)


_HYGON_HEADING = re.compile(r"\s{0,8}PID\s{1,20}PROCESS NAME\s{1,80}GPU\(s\)")
_HYGON_TITLE = re.compile(r"\s{0,8}(?:KFD process information:|PIDs for KFD processes:|No KFD PIDs currently running)")
_PID = re.compile(r"\s{0,8}PID:\s{0,8}([0-9]{1,10})\s{0,8}\Z")
_PAIR = re.compile(r"\s{0,16}([A-Za-z][^:]{1,40}):\s{0,8}(.{0,2000})\Z")
_QUOTED = re.compile(r"'([^']{0,40})'")
_RULE = re.compile(r"\s{0,8}={4}")
_USED = re.compile(r"vram used ?\(([a-z]{1,3})\)\Z")
_INDEX_KEYS = ("hcu index", "dcu index", "gpu index")
_PROCESS_KEYS = frozenset({"pasid", *_INDEX_KEYS, "sdma used"})
_NAME_KEYS = ("process name", "name")


@dataclass(slots=True)
class _HygonProcess:
    pid: int
    values: dict[str, str] = field(default_factory=dict)

    @property
    def cards(self) -> str:
        """The process's list of cards as printed, or an empty string if the list is incomplete."""
        text = self.first_text(_INDEX_KEYS)
        return text if text.startswith("[") and text.endswith("]") else ""

    def first_text(self, keys: Sequence[str]) -> str:
        """Return the text of the first key in `keys` that was printed, or an empty string."""
        return next((self.values[key] for key in keys if key in self.values), "")


@dataclass(slots=True)
class _HygonProcessList:
    entries: list[_HygonProcess] = field(default_factory=list)
    is_complete: bool = False
    stray_line: Line | None = None  # a line that belongs to no process


def is_hygon_list(lines: Sequence[Line]) -> bool:
    """Return whether these lines are the output of `--showpids`, possibly without its title."""
    if any(_HYGON_HEADING.match(line.text) or _HYGON_TITLE.match(line.text) for line in lines):
        return True
    return any(entry.first_text(_INDEX_KEYS) for entry in _hygon_list_in(lines).entries)


def read_hygon_list(lines: Sequence[Line], draft: Draft) -> None:
    """Add the processes that hy-smi lists to the draft."""
    hygon_list = _hygon_list_in(lines)
    listed_pairs: set[tuple[int, int]] = set()
    entries = hygon_list.entries
    repeated_pids = dict.fromkeys(entry.pid for entry in entries if not _add_process(entry, listed_pairs, draft))
    for pid in repeated_pids:
        draft.add_problem(f"PID {pid}", listed_twice("the process"))
    if hygon_list.stray_line is not None:
        draft.add_problem(
            hygon_list.stray_line.where, f"this line follows no process: {quote(hygon_list.stray_line.text)}"
        )
    elif entries and not hygon_list.is_complete:
        draft.add_problem(lines[-1].where, f"the list of processes is cut off here: {quote(lines[-1].text)}")
    elif all(entry.cards for entry in entries):
        _count_processes(draft)
    for entry in entries:
        if not entry.cards:
            draft.add_problem(f"PID {entry.pid}", "the process has no list of cards")


def _add_process(entry: _HygonProcess, listed_pairs: set[tuple[int, int]], draft: Draft) -> bool:
    """Add the process to each of its cards. Return False if it was already listed for one of them."""
    indices = [units.integer(text) for text in _QUOTED.findall(entry.cards)]
    buses = _QUOTED.findall(entry.values.get("pci bus", ""))
    # The printed memory of a process on several cards is a sum, which is not stored.
    used = _memory_used_bytes(entry.values) if len(indices) == 1 else None
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
    counts = Counter(process.device for process in draft.processes)
    for device in range(draft.device_count()):
        draft.set_value(device, metric("processes"), float(counts[device]))


def _hygon_list_in(lines: Sequence[Line]) -> _HygonProcessList:
    hygon_list = _HygonProcessList()
    for line in lines:
        if not line.ended:
            continue
        pid_match = _PID.match(line.text)
        pair_match = _PAIR.match(line.text)
        key = " ".join(pair_match[1].lower().split()) if pair_match is not None else ""
        if pid_match is not None:
            hygon_list.entries.append(_HygonProcess(int(pid_match[1])))
            hygon_list.is_complete = False
        elif hygon_list.entries and not hygon_list.is_complete:
            hygon_list.is_complete = _RULE.match(line.text) is not None
            if pair_match is not None and key not in hygon_list.entries[-1].values:
                hygon_list.entries[-1].values[key] = pair_match[2].strip()
            elif pair_match is not None:
                # A repeated key means that the first line of the next process is missing.
                hygon_list.stray_line = hygon_list.stray_line or line
        elif key in _PROCESS_KEYS:
            hygon_list.stray_line = hygon_list.stray_line or line
    return hygon_list


def _memory_used_bytes(values: Mapping[str, str]) -> float | None:
    for key, text in values.items():
        match = _USED.match(key)
        if match is not None:
            used = units.quantity(text, units.BYTES, units.find_unit(match[1], units.BYTES))
            return None if isinstance(used, Absent) or used < 0 else used
    return None
