"""The arguments and CPU times of this node's processes, as the user of `top` may read them; the daemon never sends arguments."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from telemetry_daemon.readers.proc import command_line, text_of
from telemetry_daemon.top.feed import Feed, Focus
from telemetry_exporters.terminal.frames.model import NodeState, Running

_PAUSE_SECONDS = 10.0
# A process that starts so much earlier or later than the one that was reported is another one.
_CLOCKS_APART_SECONDS = 2.0
_UTIME, _STIME, _START = 12, 13, 20


class Processes:
    """Reads processes; their CPU time counts from one look to the next, at the first from their start."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._before: dict[int, tuple[float, float]] = {}

    def read(self, started: Mapping[int, float]) -> Mapping[int, Running]:
        """Those of these processes, by PID with their Unix time of start, that run and are the same."""
        found, before, self._before = {}, self._before, {}
        now = time.time()
        boot = now - float(text_of(f"{self._proc}/uptime").split()[0])
        for pid, start in started.items():
            times = self._times(pid)
            if times is None or abs(boot + times[0] - start) > _CLOCKS_APART_SECONDS:
                continue
            then, used = before.get(pid, (start, 0.0))
            self._before[pid] = now, times[1]
            found[pid] = Running(command_line(pid), max(0.0, times[1] - used) / max(now - then, 1.0))
        return found

    def _times(self, pid: int) -> tuple[float, float] | None:
        """Its start since the machine's and its CPU time, in seconds; None if there is none."""
        try:
            content = text_of(f"{self._proc}/{pid}/stat")
            fields = content[content.rindex(")") :].split()
            ticks = [int(fields[place]) for place in (_START, _UTIME, _STIME)]
        except (OSError, ValueError, LookupError):  # it has ended, or is hidden from us
            return None
        hertz = os.sysconf("SC_CLK_TCK")
        return ticks[0] / hertz, (ticks[1] + ticks[2]) / hertz


class WithCommands(Feed):
    """A feed of this node whose processes are looked at while they are in sight; attribution must report when they started."""

    def __init__(self, feed: Feed, processes: Processes) -> None:
        self.title = feed.title
        self._feed = feed
        self._processes = processes
        self._wake: Callable[[], None] = lambda: None
        self._running: Mapping[int, Running] = {}
        self._started: Mapping[int, float] = {}
        self._wanted, self._over = threading.Event(), threading.Event()

    def start(self, wake: Callable[[], None]) -> None:
        """Begin to read both."""
        self._wake = wake
        self._feed.start(wake)
        # The kernel may hang on a process that hangs in a driver: the screen does not wait for it.
        threading.Thread(target=self._read_on, name="commands", daemon=True).start()

    def nodes(self) -> tuple[NodeState, ...]:
        """What the feed reports, with the processes that run."""
        nodes = self._feed.nodes()
        self._started = {
            process.pid: process.started
            for node in nodes
            if node.snapshot is not None
            for device in node.snapshot.devices
            for process in device.processes
            if process.started is not None
        }
        return tuple(replace(node, running=self._running) for node in nodes)

    def look_at(self, focus: Focus) -> None:
        """Processes that are in sight are read."""
        self._feed.look_at(focus)
        if focus.processes and self._started:
            self._wanted.set()

    def press(self, key: str, /) -> bool:
        """Keys are for the feed."""
        return self._feed.press(key)

    def close(self) -> None:
        """Stop; the thread ends with the process."""
        self._over.set()
        self._wanted.set()
        self._feed.close()

    def _read_on(self) -> None:
        while self._wanted.wait() and not self._over.is_set():
            self._running = self._processes.read(self._started)
            self._wake()
            self._over.wait(_PAUSE_SECONDS)
            self._wanted.clear()
