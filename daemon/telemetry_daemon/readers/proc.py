"""Reads what the kernel tells of the processes on cards: once for each process, and at every poll only whether it is still the same."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from telemetry_daemon.config.optional_sections import AttributionSettings
from telemetry_daemon.readers.base import Begun, Targets
from telemetry_daemon.readers.proc_files import Mark, mark_of, named_variables, text_of, ticks_of, uid_of
from telemetry_daemon.readers.proc_holds import Holds
from telemetry_daemon.readers.users import Users
from telemetry_parsers.bounds import MOST_PROCESSES
from telemetry_parsers.model import Capture, Failure, Output, Plain, Poll

# The namespace of processes that the kernel makes at its start: there a driver's numbers mean what they say.
FIRST_NAMESPACE = "pid:[4026531836]"
_TICKS = os.sysconf("SC_CLK_TCK")
# A list of a card's processes is at most this old: so long another process with a number on it may be somebody else's.
_DOUBT_SECONDS = 600.0
# That they were read, also where there are none.
_LISTED = Output("/proc", status=0)
_ELSEWHERE = (
    "this container numbers its processes anew, so the driver's numbers mean others here: give it the host's processes "
    "(hostPID), or the host's / as `path`"
)
_HIDDEN = "{} hides other users' processes (hidepid): mount it with gid= a group of the service's user"


@dataclass(frozen=True, slots=True)
class _Known:
    """A process that was read, and who it is; `believed` is from when on it is taken for the one that is listed.

    `ticks` is 0 while no process has the listed number, or one that is hidden.
    """

    mark: Mark | None
    ticks: int
    believed: float = 0.0
    output: Output | None = None


class ProcReader:
    """Answers for the processes that the other sources list; one that has ended is left out."""

    def __init__(
        self,
        root: str,
        environment: bool,  # noqa: FBT001  # the setting of that name
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._proc = f"{root.rstrip('/')}/proc"
        # Whoever gives a root knows whose numbers the processes there have.
        self._is_ours = not root
        self._reads_environment = environment
        self._users = Users(root)
        self._holds = Holds()
        self._clock = clock
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
        elsewhere = self._is_elsewhere() if self._is_ours else None
        if elsewhere is not None:
            return elsewhere
        if not Path(self._proc, "1").is_dir() and not self._is_ours:
            return Failure("missing", None, f"{self._proc} has no processes: is the host's / there?")
        # The first process is always there.
        is_hidden = ticks_of(f"{self._proc}/1") is None
        return Failure("failed", "no_permission", _HIDDEN.format(self._proc)) if is_hidden else None

    def _is_elsewhere(self) -> Failure | None:
        try:
            namespace = os.readlink(f"{self._proc}/self/ns/pid")  # noqa: PTH115  # pathlib costs more, at each poll
        except OSError as error:
            return Failure("failed", "internal", f"{self._proc}/self/ns/pid: {error.strerror}")
        return None if namespace == FIRST_NAMESPACE else Failure("not_supported", None, _ELSEWHERE)

    def _processes(self, pids: Iterable[int]) -> tuple[Output, ...]:
        now = self._clock()
        new: list[tuple[int, dict[str, Plain], int]] = []
        known: dict[int, _Known] = {}
        for pid in pids:
            known[pid] = found = self._found(pid, now)
            if found.output is None and found.ticks and (read := self._details(pid, found.ticks)) is not None:
                new.append((pid, *read))
        self._users.learn(uid for *_, uid in new)
        for pid, data, uid in new:
            output = Output(str(pid), status=0, data={**data, "user": self._users.name(uid)})
            known[pid] = replace(known[pid], output=output)
        self._known = known
        return self._with_holds([one for one in known.values() if one.believed <= now])

    def _found(self, pid: int, now: float) -> _Known:
        """Who has this number now, with what was read of it before."""
        before, folder = self._known.get(pid), f"{self._proc}/{pid}"
        mark = mark_of(folder)
        if before is not None and mark == before.mark and (before.output is not None or mark is None):
            return before
        ticks = (ticks_of(folder) or 0) if mark is not None else 0
        if before is not None and before.ticks == ticks:
            return replace(before, mark=mark)
        return _Known(mark, ticks, 0.0 if before is None else now + _DOUBT_SECONDS)

    def _with_holds(self, known: Iterable[_Known]) -> tuple[Output, ...]:
        """What was read of each, and what it holds of cards where that may be read."""
        outputs = {(one.output.name, one.ticks): one.output for one in known if one.output is not None}
        held = self._holds.read(self._proc, outputs)
        return tuple(_holding(output, held[key]) if key in held else output for key, output in outputs.items())

    def _details(self, pid: int, ticks: int) -> tuple[dict[str, Plain], int] | None:
        """What there is to know of a process and its user's number; None if it has ended meanwhile, or is another now."""
        folder = f"{self._proc}/{pid}"
        try:
            data: dict[str, Plain] = {
                "pid": pid,
                "ticks": ticks,
                "started": round(time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / _TICKS, 2),
                "command": text_of(f"{folder}/comm").rstrip("\n"),
                "cgroup": text_of(f"{folder}/cgroup"),
            }
            uid = uid_of(folder)
        except (OSError, ValueError, LookupError):  # it has ended
            return None
        if self._reads_environment and (found := named_variables(folder)):
            data["environment"] = found
        return None if ticks_of(folder) != ticks else (data, uid)


def _holding(output: Output, held: list[Plain]) -> Output:
    data = output.data if isinstance(output.data, dict) else {}
    return replace(output, data={**data, "holds": held})


def reader(path: str, settings: AttributionSettings) -> ProcReader:
    """The reader of this machine's processes, or of those below another root."""
    return ProcReader(path, settings.environment)
