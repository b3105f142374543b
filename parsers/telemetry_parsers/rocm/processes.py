"""Processes by card from AMD's `--showpids` with `--showpidgpus`, which alone names the cards, and Hygon's indented list."""

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
class _User:
    """A process: how many cards it uses, and the cards listed so far."""

    pid: int
    count: int
    cards: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Usage:
    """The processes by card; `whole` if none is missing, `stray` after a line without process, `titled` after a title."""

    users: dict[int, _User] = field(default_factory=dict)
    names: dict[int, tuple[str, float | None]] = field(default_factory=dict)
    whole: bool = False
    stray: Line | None = None
    titled: Line | None = None


def usage_in(lines: Sequence[Line]) -> Usage | None:
    """Return the cards that each process uses, or None if the text has no list of them."""
    usage = Usage()
    user: _User | None = None
    for line in lines:
        uses = _USES.match(line.text) if line.ended else None
        if uses is not None:
            user, usage.titled = _User(int(uses[1]), int(uses[2])), None
            usage.users.setdefault(user.pid, user)
        elif user is not None:
            user = _still(user, line, usage)
        elif line.ended:
            _take_line(line, usage)
    # Below the title there is neither a list nor the message that there is none: one of the two is lost.
    usage.stray = usage.stray or usage.titled
    return usage if usage.users or usage.whole or usage.titled is not None else None


def _take_line(line: Line, usage: Usage) -> None:
    """Read a line that is of no process's list of cards."""
    if line.text.strip() == _NONE:
        usage.whole, usage.titled = True, None
    elif _TITLE_OF_CARDS.match(line.text):
        usage.titled = line
    elif _LIST.match(line.text):
        usage.titled = None
    elif _INDICES.match(line.text):
        usage.stray = line
    elif (row := _ROW.match(line.text)) is not None:
        _take_row(row, usage)


def _still(user: _User, line: Line, usage: Usage) -> _User | None:
    """Return the process that this line below it still describes, or None at the end of the list; an unknown line makes the list incomplete."""
    if not line.ended:
        return None
    if _INDICES.match(line.text):
        user.cards.extend(int(word) for word in line.text.split())
    elif line.text.strip():
        usage.whole = _RULE_BELOW_CARDS.match(line.text) is not None
        return None
    return user


def _take_row(row: re.Match[str], usage: Usage) -> None:
    used = units.quantity(row[3], units.BYTES, "B")
    pid = int(row[1])
    # With `details`, a process has a row for each of its cards, but the rows do not name the cards.
    memory = None if isinstance(used, Absent) or pid in usage.names else used
    usage.names[pid] = (row[2], memory)


def read_usage(lines: Sequence[Line], draft: Draft) -> bool:
    """Put the processes, and cards that only their list names, into the draft. Return whether the text has a list."""
    usage = usage_in(lines)
    if usage is None:
        return False
    # The tool prints the number of cards of each process. A list of another length is truncated.
    whole_users = [user for user in usage.users.values() if len(user.cards) == user.count]
    draft.processes.extend(
        _process(draft.device(card), user, usage.names) for user in whole_users for card in user.cards
    )
    if not usage.whole or usage.stray is not None or len(whole_users) < len(usage.users):
        where = "processes" if usage.stray is None else usage.stray.where
        draft.complain(where, "the list of processes by card is incomplete; processes are not counted")
    else:
        _count_processes(draft)
    return True


def _process(device: int, user: _User, names: Mapping[int, tuple[str, float | None]]) -> Process:
    name, memory = names.get(user.pid, ("", None))
    # The printed memory is the sum over all cards.
    return Process(device, user.pid, "" if name == "UNKNOWN" else name, memory if user.count == 1 else None)


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
        """Return the list of its cards with the brackets; empty if the list is incomplete."""
        text = self.first(_INDEX_KEYS)
        return text if text.startswith("[") and text.endswith("]") else ""

    def first(self, keys: Sequence[str]) -> str:
        """Return the text of the first of these keys that is present."""
        return next((self.values[key] for key in keys if key in self.values), "")


@dataclass(slots=True)
class _List:
    """The processes, and whether a rule below shows that the list is complete; `stray` is a line that belongs to no process."""

    entries: list[_Entry] = field(default_factory=list)
    is_whole: bool = False
    stray: Line | None = None


def is_pid_list(lines: Sequence[Line]) -> bool:
    """Return whether these lines are the output of `--showpids`, also without its title."""
    if any(_TABLE.match(line.text) or _TITLE.match(line.text) for line in lines):
        return True
    return any(entry.first(_INDEX_KEYS) for entry in _listed(lines).entries)


def read_pids(lines: Sequence[Line], draft: Draft) -> None:
    """Put the processes whose cards the list names into the draft."""
    listed = _listed(lines)
    seen: set[tuple[int, int]] = set()
    twice = dict.fromkeys(entry.pid for entry in listed.entries if not _take_entry(entry, seen, draft))
    for pid in twice:
        draft.complain(f"PID {pid}", listed_twice("the process"))
    if listed.stray is not None:
        draft.complain(listed.stray.where, f"a line whose process is lost: {quote(listed.stray.text)}")
    elif listed.entries and not listed.is_whole:
        draft.complain(lines[-1].where, f"the list of processes is cut off here: {quote(lines[-1].text)}")
    elif all(entry.cards for entry in listed.entries):
        _count_processes(draft)
    for entry in listed.entries:
        if not entry.cards:
            draft.complain(f"PID {entry.pid}", "the list of its cards is missing")


def _take_entry(entry: _Entry, seen: set[tuple[int, int]], draft: Draft) -> bool:
    """Put a process into the draft for each of its cards. Return False if the process is listed twice for a card."""
    indices = [units.whole(text) for text in _QUOTED.findall(entry.cards)]
    buses = _QUOTED.findall(entry.values.get("pci bus", ""))
    # The memory of a process on several cards is the sum over its cards.
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


def _count_processes(draft: Draft) -> None:
    """Set the number of processes of each device, from a complete list."""
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
                # The key is repeated: the line that begins the next process is lost.
                listed.stray = listed.stray or line
        elif key in _OF_PROCESS:
            listed.stray = listed.stray or line
    return listed


def _used_bytes(values: Mapping[str, str]) -> float | None:
    """Return the memory of a process, in the unit that its key names."""
    for key, text in values.items():
        match = _USED.match(key)
        if match is not None:
            used = units.quantity(text, units.BYTES, units.spelled(match[1], units.BYTES))
            return None if isinstance(used, Absent) or used < 0 else used
    return None
