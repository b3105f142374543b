"""Processes according to the kernel: whether they are alive, their threads and descriptors, and their children."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# The environment variable that marks the processes of a test.
MARK = "TELEMETRY_TEST_MARK"


@dataclass(frozen=True, slots=True)
class Holdings:
    """The number of a process's threads, descriptors and descendants."""

    threads: int
    descriptors: int
    processes: int

    def at_most(self, other: Holdings, more: int = 0) -> bool:
        """Return whether each count is at most that of `other` plus `more`."""
        pairs = (
            (self.threads, other.threads),
            (self.descriptors, other.descriptors),
            (self.processes, other.processes),
        )
        return all(mine <= its + more for mine, its in pairs)


def holdings(pid: int) -> Holdings:
    folder = Path(f"/proc/{pid}")
    return Holdings(
        len(list((folder / "task").iterdir())), len(list((folder / "fd").iterdir())), len(list(descendants(pid)))
    )


def own_holdings() -> Holdings:
    return holdings(os.getpid())


def descendants(pid: int) -> Iterator[int]:
    with suppress(OSError):  # it ends while we look
        for task in list(Path(f"/proc/{pid}/task").iterdir()):
            for child in map(int, (task / "children").read_text().split()):
                yield child
                yield from descendants(child)


def alive(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:  # it has ended
        return False


def rss_mib(pid: int) -> float:
    """Return the anonymous memory of a process."""
    return _status_mib(pid, "RssAnon")


def peak_mib(pid: int) -> float:
    return _status_mib(pid, "VmHWM")


def _status_mib(pid: int, key: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(key)).split()[1]) / 1024


def marked(mark: str) -> list[int]:
    """Return the living processes that were started with this mark in their environment."""
    entry = f"{MARK}={mark}".encode()
    return [int(folder.name) for folder in os.scandir("/proc") if folder.name.isdigit() and _has(folder.path, entry)]


def _has(folder: str, entry: bytes) -> bool:
    try:
        # A zombie's environment is empty.
        return entry in (Path(folder) / "environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or is another user's
        return False
