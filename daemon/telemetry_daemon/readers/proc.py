"""Reads what the kernel tells of the processes on cards: once for each process, and at every poll only whether it is still the same."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from telemetry_daemon.config.settings import AttributionSettings
from telemetry_daemon.readers.base import Begun, Targets
from telemetry_daemon.readers.users import Users
from telemetry_parsers.bounds import MOST_PROCESSES
from telemetry_parsers.model import Capture, Failure, Output, Plain, Poll

# The namespace of processes that the kernel makes at its start: there a driver's numbers mean what they say.
FIRST_NAMESPACE = "pid:[4026531836]"
_TICKS = os.sysconf("SC_CLK_TCK")
_LARGEST_BYTES = 64 << 10
_LARGEST_ENVIRONMENT_BYTES = 1 << 20
_LARGEST_COMMAND_BYTES = 128 << 10
# Nothing else of an environment leaves the function that reads it: it holds passwords.
VARIABLES = (
    *("SLURM_JOB_ID", "SLURM_JOB_SLUID", "PBS_JOBID", "FLUX_JOB_ID"),
    *("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "FLUX_TASK_RANK"),
)
# That they were read, also where there are none.
_LISTED = Output("/proc", status=0)
_ELSEWHERE = (
    "this container numbers its processes anew, so the driver's numbers mean others here: give it the host's processes "
    "(hostPID), or the host's / as `path`"
)


@dataclass(frozen=True, slots=True)
class _Known:
    """A process that was read, and who it is: another one may have its number later."""

    ticks: int
    output: Output


class ProcReader:
    """Answers for the processes that the other sources list; one that has ended is left out."""

    def __init__(self, root: str, environment: bool) -> None:  # noqa: FBT001  # the setting of that name
        self._proc = f"{root.rstrip('/')}/proc"
        # Whoever gives a root knows whose numbers the processes there have.
        self._is_ours = not root
        self._reads_environment = environment
        self._users = Users(root)
        self._known: dict[int, _Known] = {}

    def read(self, poll: Poll, targets: Targets) -> Capture:
        """One output for each process."""
        begun, cpu = Begun(), time.thread_time()
        refusal = self._refusal()
        outputs = () if refusal is not None else (_LISTED, *self._processes(targets.pids[:MOST_PROCESSES]))
        return begun.capture("proc", poll, outputs, refusal, time.thread_time() - cpu)

    def close(self) -> None:
        """Nothing runs, nothing is held."""

    def left_behind(self) -> tuple[int, ...]:
        """None: nothing runs."""
        return ()

    def _refusal(self) -> Failure | None:
        if not self._is_ours:
            there = Path(self._proc, "1").is_dir()
            return None if there else Failure("missing", None, f"{self._proc} has no processes: is the host's / there?")
        try:
            namespace = str(Path(self._proc, "self/ns/pid").readlink())
        except OSError as error:
            return Failure("failed", "internal", f"{self._proc}/self/ns/pid: {error.strerror}")
        return None if namespace == FIRST_NAMESPACE else Failure("not_supported", None, _ELSEWHERE)

    def _processes(self, pids: Iterable[int]) -> tuple[Output, ...]:
        known: dict[int, _Known] = {}
        new: list[tuple[int, int, dict[str, Plain], int]] = []
        for pid in pids:
            ticks = _ticks(f"{self._proc}/{pid}")
            before = self._known.get(pid)
            if ticks is None:
                continue
            if before is not None and before.ticks == ticks:
                known[pid] = before
            elif (read := self._details(pid, ticks)) is not None:
                new.append((pid, ticks, *read))
        self._users.learn(uid for *_, uid in new)
        for pid, ticks, data, uid in new:
            known[pid] = _Known(ticks, Output(str(pid), status=0, data={**data, "user": self._users.name(uid)}))
        self._known = known
        return tuple(one.output for one in known.values())

    def _details(self, pid: int, ticks: int) -> tuple[dict[str, Plain], int] | None:
        """What there is to know of a process and its user's number; None if it has ended meanwhile, or is another now."""
        folder = f"{self._proc}/{pid}"
        try:
            data: dict[str, Plain] = {
                "pid": pid,
                "ticks": ticks,
                "started": round(time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / _TICKS, 2),
                "command": _text(f"{folder}/comm", _LARGEST_BYTES).rstrip("\n"),
                "cgroup": _text(f"{folder}/cgroup", _LARGEST_BYTES),
            }
            uid = _uid(_text(f"{folder}/status", _LARGEST_BYTES))
        except (FileNotFoundError, ProcessLookupError):
            return None
        if self._reads_environment and (found := _environment(folder)):
            data["environment"] = found
        return None if _ticks(folder) != ticks else (data, uid)


def reader(path: str, settings: AttributionSettings) -> ProcReader:
    """The reader of this machine's processes, or of those below another root."""
    return ProcReader(path, settings.environment)


def command_line(pid: int) -> str:
    """All arguments of a process, for the terminal of who may read them; empty where they cannot be read. They hold secrets."""
    try:
        return _text(f"/proc/{pid}/cmdline", _LARGEST_COMMAND_BYTES).rstrip("\0").replace("\0", " ")
    except OSError:  # it has ended, or is another user's on a machine that hides them
        return ""


def _ticks(folder: str) -> int | None:
    """When a process started, in ticks since the machine did; None if there is none. Its name may have any characters."""
    try:
        _, _, rest = _text(f"{folder}/stat", _LARGEST_BYTES).rpartition(")")
        return int(rest.split()[19])
    except (OSError, ValueError, LookupError):  # it has ended, or is hidden from us
        return None


def _uid(status: str) -> int:
    """The number of the user who started it, as the line `Uid:` of its status begins."""
    line = next((line for line in status.splitlines() if line.startswith("Uid:")), "Uid: 0")
    return int(line.split()[1])


def _environment(folder: str) -> dict[str, Plain]:
    """The named variables; none where the environment cannot be read, which takes a right of its own."""
    try:
        content = _text(f"{folder}/environ", _LARGEST_ENVIRONMENT_BYTES)
    except OSError:  # the right to read it was not given
        return {}
    pairs = (entry.partition("=") for entry in content.split("\0"))
    return {name: value for name, _, value in pairs if name in VARIABLES}


def _text(path: str, most_bytes: int) -> str:
    """The beginning of one of the kernel's files."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = b""
        while len(content) < most_bytes and (chunk := os.read(descriptor, most_bytes - len(content))):
            content += chunk
    finally:
        os.close(descriptor)
    return content.decode("utf-8", errors="replace")
