"""What a process and all its children cost: CPU seconds and memory, as the kernel counts them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# In /proc/PID/stat behind the name: utime, stime, and those of children that have ended.
_CPU_FIELDS = slice(11, 15)
_GONE = (FileNotFoundError, ProcessLookupError)


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident memory of a process and its children, in MiB; in `pss` a shared page counts once for all of them."""

    rss: float
    pss: float


NO_MEMORY = Memory(0.0, 0.0)


def tree(pid: int) -> list[int]:
    """The process and all that descend from it."""
    children: list[int] = []
    with contextlib.suppress(*_GONE):  # a process may end while it is looked at
        for task in Path(f"/proc/{pid}/task").iterdir():
            children += map(int, (task / "children").read_text().split())
    return [pid, *(each for child in children for each in tree(child))]


def cpu_seconds(pid: int) -> float:
    """User and system time of the process, its children, and those of them that have ended."""
    return sum(ticks for each in tree(pid) for ticks in _ticks(each)) / _TICKS_PER_SECOND


def _ticks(pid: int) -> Iterator[int]:
    with contextlib.suppress(*_GONE):  # a process may end while it is looked at
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        yield from map(int, fields[_CPU_FIELDS])


def memory(pid: int) -> Memory:
    """What they hold now."""
    rolled = [_rollup(each) for each in tree(pid)]
    return Memory(*(sum(each.get(name, 0) for each in rolled) / 1024 for name in ("Rss", "Pss")))


def _rollup(pid: int) -> dict[str, int]:
    with contextlib.suppress(*_GONE):  # a process may end while it is looked at
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
        return {name: int(value.split()[0]) for name, _, value in (line.partition(":") for line in lines)}
    return {}
