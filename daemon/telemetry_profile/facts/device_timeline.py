"""Collects the executions in one file, and computes steps, kernels and idle times from them."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from telemetry_parsers.model import Problem
from telemetry_profile.facts.intervals import Executions, Interval
from telemetry_profile.facts.kernel_kinds import is_data_wait, is_step
from telemetry_profile.facts.splits import Launches, Splitter, first_collective_of, gaps_and_rest
from telemetry_profile.format_contract import (
    Call,
    Card,
    Clock,
    Device,
    Facts,
    Kernel,
    Link,
    Split,
    Step,
    Work,
)

# Names of real kernels have at most a few thousand characters.
MAX_NAME_CHARACTERS = 1 << 16
MAX_NAMES = 100_000
OTHERS = "(others)"  # collects the kernels and functions after the first MAX_NAMES
MAX_LENGTH_NS = 400 * 86_400 * 10**9  # greater lengths come from invalid timestamps
_MIN_TIME_NS, _MAX_TIME_NS = -(2**62), 2**62
_WORKS: tuple[Work, ...] = ("compute", "communication", "copy", "fused")
LaunchKind = Literal["kernel", "graph", "copy"]


class _HostStep(NamedTuple):
    process: Hashable
    name: str
    begin: int
    end: int


@dataclass(slots=True)
class _KernelSums:
    calls: int = 0
    total_ns: int = 0
    longest_ns: int = -1
    grid: str = ""
    block: str = ""
    occupancy_ratio: float | None = None


@dataclass(slots=True)
class _DeviceWork:
    card: Card
    rank: int | None = None
    processes: set[Hashable] = field(default_factory=set)
    executions: dict[Work, Executions] = field(default_factory=lambda: {work: Executions() for work in _WORKS})
    sums: defaultdict[tuple[Work, str], _KernelSums] = field(default_factory=lambda: defaultdict(_KernelSums))

    def sums_of(self, work: Work, name: str) -> _KernelSums:
        key = (work, name[:MAX_NAME_CHARACTERS])
        if key not in self.sums and len(self.sums) >= MAX_NAMES:
            key = (work, OTHERS)
        return self.sums[key]


class LinkSums:
    """The total bytes and the total duration of the transfers over each link."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str, str], list[int]] = {}

    def add(self, kind: str, source: str, target: str, size: int, length_ns: int | None) -> None:
        """Add a transfer, unless its duration is invalid."""
        key = (kind, source, target)
        if length_ns is None or not 0 < length_ns < MAX_LENGTH_NS:
            return
        if key in self._sums or len(self._sums) < MAX_NAMES:
            sums = self._sums.setdefault(key, [0, 0])
            sums[0] += size
            sums[1] += length_ns

    def links(self) -> tuple[Link, ...]:
        """Return all links in the order of their first transfers."""
        return tuple(Link(*key, *sums) for key, sums in self._sums.items())


class Timeline:
    """The executions, steps, waits for data, calls and launches in one file."""

    def __init__(self) -> None:
        self._work_by_key: dict[Hashable, _DeviceWork] = {}
        self._steps: list[_HostStep] = []
        self._data_waits: dict[Hashable, Executions] = {}
        self._calls: dict[str, list[int]] = {}
        self._launch_begins: array[int] = array("q")
        self._graph_begins: array[int] = array("q")
        self._launch_times = Launches()
        self._invalid_count = 0

    def set_card(self, key: Hashable, card: Card, rank: int | None = None, process: Hashable = None) -> None:
        """Set the card and rank of the device `key`, and add a process that used the device."""
        device_work = self._work_by_key.setdefault(key, _DeviceWork(card))
        device_work.card, device_work.rank = card, rank
        if process is not None:
            device_work.processes.add(process)

    def add(  # no object for the arguments, because this is called for every event
        self,
        key: Hashable,
        work: Work,
        begin_ns: int | None,
        length_ns: int | None,
        name: str,
        grid: str = "",
        block: str = "",
        occupancy_ratio: float | None = None,
        launch_number: int = -1,
    ) -> None:
        """Add an execution on the device `key`. `launch_number` is -1 if unknown."""
        span = self._checked_span(begin_ns, length_ns)
        if span is None:
            return
        device_work = self._work_by_key.get(key)
        if device_work is None:
            device_work = self._work_by_key[key] = _DeviceWork(Card(index=key if isinstance(key, int) else None))
        if work != "wait":
            device_work.executions[work].add(*span, launch_number)
        sums = device_work.sums_of(work, name)
        length_ns = span[1] - span[0]
        sums.calls += 1
        sums.total_ns += length_ns
        if length_ns > sums.longest_ns:
            sums.longest_ns, sums.grid, sums.block, sums.occupancy_ratio = length_ns, grid, block, occupancy_ratio

    def add_step(self, name: str, begin_ns: int | None, length_ns: int | None, process: Hashable = None) -> None:
        """Add a step that the program marked on the host."""
        span = self._checked_span(begin_ns, length_ns)
        if span is not None and len(self._steps) < MAX_NAMES:
            self._steps.append(_HostStep(process, name[:MAX_NAME_CHARACTERS], *span))

    def add_data_wait(self, begin_ns: int | None, length_ns: int | None, process: Hashable = None) -> None:
        """Add a span in which the host waits for data."""
        span = self._checked_span(begin_ns, length_ns)
        if span is not None:
            self._data_waits.setdefault(process, Executions()).add(*span)

    def add_range(self, name: str, begin_ns: int | None, length_ns: int | None, process: Hashable = None) -> bool:
        """Add a marked range as a step or a wait for data, and return True. Return False if its name means neither."""
        if is_step(name):
            self.add_step(name.strip(), begin_ns, length_ns, process)
        elif is_data_wait(name):
            self.add_data_wait(begin_ns, length_ns, process)
        else:
            return False
        return True

    def add_call(self, name: str, length_ns: int | None, calls: int = 1) -> None:
        """Add calls of a host function. `length_ns` is their total duration."""
        if length_ns is None or not 0 <= length_ns < MAX_LENGTH_NS:
            self._invalid_count += calls
            return
        name = name[:MAX_NAME_CHARACTERS]
        if name not in self._calls and len(self._calls) >= MAX_NAMES:
            name = OTHERS
        sums = self._calls.setdefault(name, [0, 0])
        sums[0] += calls
        sums[1] += length_ns

    def add_launch(self, begin_ns: int | None, kind: LaunchKind, number: int | None = None) -> None:
        """Add a launch on the host. The launched work has the same launch number."""
        if begin_ns is None or not _MIN_TIME_NS < begin_ns < _MAX_TIME_NS:
            return
        if number is not None:
            self._launch_times.add(number, begin_ns)
        if kind != "copy":
            self._launch_begins.append(begin_ns)
        if kind == "graph":
            self._graph_begins.append(begin_ns)

    def host_steps(self) -> list[Interval]:
        """Return the span of each step on the host."""
        return [(step.begin, step.end) for step in self._steps]

    def facts(self, name: str, tool: str, clock: Clock, devices: tuple[Device, ...] | None = None) -> Facts:
        """Return the content of the file, by default with the devices of the timeline."""
        devices = self.devices() if devices is None else devices
        return Facts(name, tool, clock, devices=devices, calls=self.calls(), problems=self.problems())

    def devices(self) -> tuple[Device, ...]:
        """Return the devices that did any work, ordered by rank and card number."""
        self._steps.sort(key=lambda step: step.begin)
        self._launch_begins = array("q", sorted(self._launch_begins))
        self._graph_begins = array("q", sorted(self._graph_begins))
        all_work = self._work_by_key.values()
        active_work = [work for work in all_work if any(executions.begins for executions in work.executions.values())]
        devices = [self._create_device(work, is_only_device=len(active_work) == 1) for work in active_work]
        return tuple(
            sorted(devices, key=lambda device: (device.rank or 0, device.card.index is None, device.card.index or 0))
        )

    def calls(self) -> tuple[Call, ...]:
        """Return the host's calls in descending order of their total times."""
        return tuple(sorted((Call(name, *sums) for name, sums in self._calls.items()), key=lambda call: -call.total_ns))

    def problems(self) -> tuple[Problem, ...]:
        """Return a problem that says how many events were ignored, or () if there are none."""
        message = f"{self._invalid_count} ignored, because the time or length is impossible"
        return (Problem("events", message),) if self._invalid_count else ()

    def _checked_span(self, begin_ns: int | None, length_ns: int | None) -> Interval | None:
        """Return (begin, end). If the times are impossible, count the event as invalid, and return None."""
        if (
            begin_ns is None
            or length_ns is None
            or not (0 <= length_ns < MAX_LENGTH_NS and _MIN_TIME_NS < begin_ns < _MAX_TIME_NS)
        ):
            self._invalid_count += 1
            return None
        return begin_ns, begin_ns + length_ns

    def _create_device(self, device_work: _DeviceWork, *, is_only_device: bool) -> Device:
        data_waits = [spans.union() for process, spans in self._data_waits.items() if _may_use(process, device_work)]
        splitter = Splitter(device_work.executions, data_waits[0].union_with(*data_waits[1:]) if data_waits else None)
        steps_of_device = [step for step in self._steps if _may_use(step.process, device_work)]
        host_spans = [(step.begin, step.end) for step in steps_of_device]
        device_spans = self._launch_times.step_spans(device_work.executions, host_spans)
        steps = []
        for step, host_span, device_span in zip(steps_of_device, host_spans, device_spans or host_spans, strict=True):
            split_of_work = splitter.split(*device_span, host_span)
            split = self._with_launches(split_of_work, host_span, is_only_device=is_only_device)
            steps.append(Step(step.name, split, device_span[0], device_span[0] >= device_span[1]))
        begin, end = splitter.span()
        whole_split = self._with_launches(splitter.split(begin, end), None, is_only_device=is_only_device)
        span_and_collective = first_collective_of(device_work.executions["communication"], splitter)
        gaps, without_gaps = gaps_and_rest(splitter, span_and_collective and span_and_collective[0])
        return Device(
            device_work.card, device_work.rank, begin, end, whole_split, tuple(steps), _kernels_of(device_work),
            first_collective=span_and_collective and span_and_collective[1],
            step_basis="launch" if device_spans else "host" if steps_of_device else "",
            gaps=gaps,
            without_gaps=without_gaps,
        )  # fmt: skip

    def _with_launches(self, split: Split, host_span: Interval | None, *, is_only_device: bool) -> Split:
        """Return the split with the number of launches in `host_span`, or of all launches if `host_span` is None."""
        if not self._launch_begins or not is_only_device:
            return split
        first, end = _index_range(self._launch_begins, host_span)
        graphs = _index_range(self._graph_begins, host_span)
        launching_ns = self._launch_begins[end - 1] - self._launch_begins[first] if end > first else 0
        return replace(split, launches=end - first, graph_launches=graphs[1] - graphs[0], launching_ns=launching_ns)


def _index_range(times: array[int], span: Interval | None) -> tuple[int, int]:
    return (0, len(times)) if span is None else (bisect_left(times, span[0]), bisect_left(times, span[1]))


def _may_use(process: Hashable, device_work: _DeviceWork) -> bool:
    return process is None or not device_work.processes or process in device_work.processes


def _kernels_of(device_work: _DeviceWork) -> tuple[Kernel, ...]:
    kernels = (
        Kernel(name, work, sums.calls, sums.total_ns, sums.longest_ns, sums.grid, sums.block, sums.occupancy_ratio)
        for (work, name), sums in device_work.sums.items()
    )
    return tuple(sorted(kernels, key=lambda kernel: (-kernel.total_ns, kernel.name)))
