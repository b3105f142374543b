"""Reads command lines and CPU times of this node's processes, with the permissions of the user of `top`."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from telemetry_daemon.readers.proc import command_line, proc_text
from telemetry_daemon.top.feed import Feed, Focus
from telemetry_exporters.terminal.frames.model import NodeState, RunningProcess

_PAUSE_SECONDS = 10.0
# If the reported and the read start time differ by more than this, another process has the PID now.
_START_TOLERANCE_SECONDS = 2.0
_UTIME_FIELD, _STIME_FIELD, _START_FIELD = 12, 13, 20


class ProcessReader:
    """Reads processes, and their CPU usage since the previous read."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._previous: dict[int, tuple[float, float]] = {}

    def read(self, start_times: Mapping[int, float]) -> Mapping[int, RunningProcess]:
        """Return the running processes by PID. `start_times` maps PIDs to Unix times."""
        running, previous, self._previous = {}, self._previous, {}
        now = time.time()
        boot_time = now - float(proc_text(f"{self._proc}/uptime").split()[0])
        for pid, start_time in start_times.items():
            uptime_at_start, cpu_seconds = self._read_times(pid) or (math.inf, 0.0)
            if abs(boot_time + uptime_at_start - start_time) > _START_TOLERANCE_SECONDS:
                continue
            previous_time, previous_cpu = previous.get(pid, (start_time, 0.0))
            self._previous[pid] = now, cpu_seconds
            cpu_ratio = max(0.0, cpu_seconds - previous_cpu) / max(now - previous_time, 1.0)
            running[pid] = RunningProcess(command_line(pid), cpu_ratio)
        return running

    def _read_times(self, pid: int) -> tuple[float, float] | None:
        """Return the machine's uptime when the process started, and the CPU time of the process, in seconds."""
        try:
            content = proc_text(f"{self._proc}/{pid}/stat")
            fields = content[content.rindex(")") :].split()
            ticks = [int(fields[index]) for index in (_START_FIELD, _UTIME_FIELD, _STIME_FIELD)]
        except (OSError, ValueError, LookupError):  # the process has exited, or this user may not see it
            return None
        hertz = os.sysconf("SC_CLK_TCK")
        return ticks[0] / hertz, (ticks[1] + ticks[2]) / hertz


class FeedWithProcesses(Feed):
    """A feed of this node, with command lines and CPU usage of processes."""

    def __init__(self, feed: Feed, processes: ProcessReader) -> None:
        self.title = feed.title
        self._feed = feed
        self._processes = processes
        self._wake: Callable[[], None] = lambda: None
        self._running_processes: Mapping[int, RunningProcess] = {}
        self._start_times: Mapping[int, float] = {}
        self._read_requested, self._closed = threading.Event(), threading.Event()

    def start(self, wake: Callable[[], None]) -> None:
        """Start the feed, and a thread that reads processes."""
        self._wake = wake
        self._feed.start(wake)
        # Processes are read in a separate thread, because reading a process that hangs in a driver may block.
        threading.Thread(target=self._read_on_request, name="commands", daemon=True).start()

    def nodes(self) -> tuple[NodeState, ...]:
        """Return the feed's nodes with the running processes."""
        nodes = self._feed.nodes()
        self._start_times = {
            process.pid: process.started
            for node in nodes
            if node.snapshot is not None
            for device in node.snapshot.devices
            for process in device.processes
            if process.started is not None
        }
        return tuple(replace(node, running=self._running_processes) for node in nodes)

    def set_focus(self, focus: Focus) -> None:
        """Set the focus of the feed, and read processes if the screen shows them."""
        self._feed.set_focus(focus)
        if focus.shows_processes and self._start_times:
            self._read_requested.set()

    def press(self, key: str, /) -> bool:
        """Pass the key to the feed, and return whether the feed used it."""
        return self._feed.press(key)

    def close(self) -> None:
        """Stop reading, without waiting for a thread that hangs."""
        self._closed.set()
        self._read_requested.set()
        self._feed.close()

    def _read_on_request(self) -> None:
        while self._read_requested.wait() and not self._closed.is_set():
            self._running_processes = self._processes.read(self._start_times)
            self._wake()
            self._closed.wait(_PAUSE_SECONDS)
            self._read_requested.clear()
