"""The cost of a process and its children: CPU seconds and memory, as the kernel counts them."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# In /proc/PID/stat, these fields after the name are the times of ended children.
_CHILDREN_FIELDS = slice(13, 15)
_GONE = (FileNotFoundError, ProcessLookupError)


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident memory in MiB, of the main process and of all. `pss` divides shared pages among the processes that share them."""

    main_rss: float
    rss: float
    pss: float


def tree(pid: int) -> list[int]:
    """Return the process and all its descendants."""
    children: list[int] = []
    with contextlib.suppress(*_GONE):  # The process may end meanwhile.
        for task in Path(f"/proc/{pid}/task").iterdir():
            children += map(int, (task / "children").read_text().split())
    return [pid, *(descendant for child in children for descendant in tree(child))]


def cpu_seconds(pid: int) -> float:
    """Return user and system time of the process and its children, including children that have ended."""
    return sum(map(_own_seconds, tree(pid)))


def user_and_system_seconds(pid: int) -> tuple[float, float]:
    """Return the user and the system time of the process and its children, in ticks of 10 ms."""
    user = system = 0.0
    for descendant in tree(pid):
        with contextlib.suppress(OSError):  # The process may end meanwhile.
            fields = Path(f"/proc/{descendant}/stat").read_text().rpartition(")")[2].split()
            # The times include children that have ended.
            user += (int(fields[11]) + int(fields[13])) / _TICKS_PER_SECOND
            system += (int(fields[12]) + int(fields[14])) / _TICKS_PER_SECOND
    return user, system


def _own_seconds(pid: int) -> float:
    with contextlib.suppress(OSError):  # The process may end meanwhile.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ended = sum(map(int, fields[_CHILDREN_FIELDS])) / _TICKS_PER_SECOND
        return ended + time.clock_gettime(_cpu_clock(pid))
    return 0.0


def _cpu_clock(pid: int) -> int:
    """Return the ID of the process's CPU clock (clock_getcpuclockid). It counts nanoseconds, but stat counts ticks of 10 ms."""
    clock_kind = 2  # CPUCLOCK_SCHED
    return (~pid << 3) | clock_kind


def memory(pid: int) -> Memory:
    """Return the current memory of the process and its children."""
    rollups = [_rollup(member) for member in tree(pid)]
    rss, pss = ([rollup.get(name, 0) / 1024 for rollup in rollups] for name in ("Rss", "Pss"))
    return Memory(rss[0], sum(rss), sum(pss))


def _rollup(pid: int) -> dict[str, int]:
    with contextlib.suppress(*_GONE):  # The process may end meanwhile.
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
        return {name: int(value.split()[0]) for name, _, value in (line.partition(":") for line in lines)}
    return {}
