"""AMD's processes: the table of `--showpids`, and `--showpidgpus`, which alone names the cards that a process uses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from telemetry_parsers import units
from telemetry_parsers.model import Absent, Process
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.rocm.pids import count_processes
from telemetry_parsers.text.lines import Line

_ROW = re.compile(
    r"\s{0,8}([0-9]{1,10})\s{1,40}(\S.{0,60}?)\s{1,40}(?:[0-9]{1,4}|UNKNOWN)\s{1,40}([0-9]{1,20}|UNKNOWN)"
    r"\s{1,40}(?:[0-9]{1,20}|UNKNOWN)\s{1,40}(?:[0-9]{1,20}|UNKNOWN)\s{0,40}\Z"
)
_USES = re.compile(r"\s{0,8}PID ([0-9]{1,10}) is using ([0-9]{1,4}) DRM device\(s\):?\s{0,8}\Z")
_INDICES = re.compile(r"\s{0,8}[0-9]{1,4}(?: [0-9]{1,4})*\s{0,8}\Z")
_RULE = re.compile(r"\s{0,8}={8,200}\s{0,8}\Z")
_TITLE = re.compile(r"\s{0,8}={3,200} (?:KFD Processes|GPUs Indexed by PID) ={3,200}\s{0,8}\Z")
_LIST = re.compile(r"\s{0,8}PID\s{1,20}PROCESS NAME\s")
_NONE = "No KFD PIDs currently running"


@dataclass(slots=True)
class _User:
    """A process: how many cards it uses, and those of them that were listed so far."""

    pid: int
    count: int
    cards: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Usage:
    """The processes by card; `whole` once it is sure that none is missing.

    `stray` is a line whose process is lost, `titled` a title below which nothing has come yet.
    """

    users: dict[int, _User] = field(default_factory=dict)
    names: dict[int, tuple[str, float | None]] = field(default_factory=dict)
    whole: bool = False
    stray: Line | None = None
    titled: Line | None = None


def usage_in(lines: Sequence[Line]) -> Usage | None:
    """The cards that each process uses, None when the text has no list of them."""
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
            _take(line, usage)
    # Under a title neither a list nor that there is none: which of the two it was is lost.
    usage.stray = usage.stray or usage.titled
    return usage if usage.users or usage.whole or usage.titled is not None else None


def _take(line: Line, usage: Usage) -> None:
    """Read a line that is of no process's list of cards."""
    if line.text.strip() == _NONE:
        usage.whole, usage.titled = True, None
    elif _TITLE.match(line.text):
        usage.titled = line
    elif _LIST.match(line.text):
        usage.titled = None
    elif _INDICES.match(line.text):
        usage.stray = line
    elif (row := _ROW.match(line.text)) is not None:
        _take_row(row, usage)


def _still(user: _User, line: Line, usage: Usage) -> _User | None:
    """Read a line below a process; the process, None when the list is over.

    A rule ends it; any other line may be a spoilt one of the list, so that who is in it is not sure any more.
    """
    if not line.ended:
        return None
    if _INDICES.match(line.text):
        user.cards.extend(int(word) for word in line.text.split())
    elif line.text.strip():
        usage.whole = _RULE.match(line.text) is not None
        return None
    return user


def _take_row(row: re.Match[str], usage: Usage) -> None:
    used = units.quantity(row[3], units.BYTES, "B")
    pid = int(row[1])
    # With `details` a process has a row for each of its cards, which does not say for which.
    memory = None if isinstance(used, Absent) or pid in usage.names else used
    usage.names[pid] = (row[2], memory)


def read_usage(lines: Sequence[Line], draft: Draft) -> bool:
    """Put the processes into the draft, and cards that only their list names; whether the text has any."""
    usage = usage_in(lines)
    if usage is None:
        return False
    # The tool counts the cards of each process; a list of another length is cut off.
    whole_users = [user for user in usage.users.values() if len(user.cards) == user.count]
    draft.processes.extend(
        _process(draft.device(card), user, usage.names) for user in whole_users for card in user.cards
    )
    if not usage.whole or usage.stray is not None or len(whole_users) < len(usage.users):
        where = "processes" if usage.stray is None else usage.stray.where
        draft.complain(where, "the list of who uses which card is not whole; nobody is counted")
    else:
        count_processes(draft)
    return True


def _process(device: int, user: _User, names: Mapping[int, tuple[str, float | None]]) -> Process:
    name, memory = names.get(user.pid, ("", None))
    # The memory is that on all cards together.
    return Process(device, user.pid, "" if name == "UNKNOWN" else name, memory if user.count == 1 else None)
