"""Chrome traces of hipprof (Hygon) and of rocprof up to ROCm 6: the printed nanoseconds of each event stand in its arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from telemetry_profile.contract import Clue, TraceEvent, TraceFormat, TraceReader, TraceSample
from telemetry_profile.facts.file_facts import Card, Clock, Facts
from telemetry_profile.facts.kernel_kinds import work_of
from telemetry_profile.facts.printed_times import NS, nanoseconds
from telemetry_profile.facts.timeline import Timeline
from telemetry_profile.facts.trace_facts import clock_of, rank_in_name

_Kind = Literal["kernel", "copy", "call", "range", ""]

# hipprof says in the category what an event is.
_CATEGORIES: Mapping[str, _Kind] = {
    "HIPOPS": "kernel",
    "HIPCOPY": "copy",
    "HIP": "call",
    "HSA": "call",
    "MPI": "call",
    "HIPTX": "range",
}
# rocprof says it in the name of the process. Barriers are packets that wait for others, not work.
_PROCESSES: tuple[tuple[re.Pattern[str], _Kind], ...] = (
    (re.compile(r"GPU ?Barriers"), ""),
    (re.compile(r"GPU ?\d+"), "kernel"),
    (re.compile(r"COPY"), "copy"),
    (re.compile(r"CPU \w+ API"), "call"),
    (re.compile(r"Markers and Ranges|ROCTX"), "range"),
)
_BEGIN, _END = "BeginNs", "EndNs"
_DEVICE_KEYS = ("devId", "dev-id")
_NUMBER = re.compile(r"\d{1,6}")


@dataclass(frozen=True, slots=True)
class _Tool:
    format: str
    name: str
    clock: Clock
    """What the printed nanoseconds count from where they are not Unix time."""


_HIPPROF = _Tool("hipprof-trace", "hipprof", "none")
_ROCPROF = _Tool("rocprof-trace", "rocprof", "boot")


class _Reader:
    def __init__(self, tool: _Tool, clue: Clue) -> None:
        self._tool = tool
        self._timeline = Timeline()
        self._processes: dict[int | str, tuple[_Kind, int | None]] = {}
        self._rank = rank_in_name(clue)

    def key(self, name: str, value: Any) -> None:  # JSON of any shape
        """The keys beside the events describe the node and the command line: nothing is kept."""

    def events(self, events: Sequence[TraceEvent]) -> None:
        for event in events:
            if event.ph == "M" and event.name == "process_name":
                self._processes[event.pid] = _process(event.args().get("name"))
            elif event.ph == "X":
                kind = _CATEGORIES.get(event.cat) or self._processes.get(event.pid, ("", None))[0]
                if kind:
                    self._run(kind, event)

    def facts(self) -> Facts:
        devices = self._timeline.devices()
        clock = clock_of(devices)
        return Facts(
            self._tool.format,
            self._tool.name,
            clock if clock == "unix" or not devices else self._tool.clock,
            devices=tuple(replace(device, rank=self._rank) for device in devices),
            calls=self._timeline.calls(),
            problems=self._timeline.problems(),
        )

    def _run(self, kind: _Kind, event: TraceEvent) -> None:
        arguments = event.args()
        begin, length = _span(event, arguments)
        if kind == "call":
            self._timeline.call(event.name, length)
            return
        if kind == "range":
            self._timeline.marked(event.name, begin, length)
            return
        index = _index(arguments, self._processes.get(event.pid, ("", None))[1])
        self._timeline.card(index, Card(index))
        self._timeline.add(index, "copy" if kind == "copy" else work_of(event.name), begin, length, event.name)


def _process(name: object) -> tuple[_Kind, int | None]:
    """What the events of a process are, and the number of its device."""
    if not isinstance(name, str):
        return "", None
    kind: _Kind = next((kind for pattern, kind in _PROCESSES if pattern.match(name)), "")
    number = _NUMBER.search(name) if kind == "kernel" else None
    return kind, int(number[0]) if number else None


def _index(arguments: Mapping[str, Any], of_process: int | None) -> int | None:
    printed = next((str(arguments[key]) for key in _DEVICE_KEYS if key in arguments), "")
    return int(printed) if _NUMBER.fullmatch(printed) else of_process


def _span(event: TraceEvent, arguments: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Begin and length, from the nanoseconds where they are printed."""
    begin, end = (nanoseconds(str(arguments[key]), NS) if key in arguments else None for key in (_BEGIN, _END))
    if begin is None or end is None:
        return event.begin_ns(), event.length_ns()
    return begin, end - begin


def _recognises_hipprof(sample: TraceSample) -> bool:
    return any(event.cat in _CATEGORIES for event in sample.events)


def _recognises_rocprof(sample: TraceSample) -> bool:
    if _recognises_hipprof(sample):
        return False
    names = (event.args().get("name") for event in sample.events if event.ph == "M" and event.name == "process_name")
    kinds = {_process(name)[0] for name in names}
    return "call" in kinds or {"copy", "kernel"} <= kinds


def _hipprof(clue: Clue) -> TraceReader:
    return _Reader(_HIPPROF, clue)


def _rocprof(clue: Clue) -> TraceReader:
    return _Reader(_ROCPROF, clue)


HIPPROF = TraceFormat(
    _HIPPROF.format,
    _HIPPROF.name,
    _recognises_hipprof,
    _hipprof,
)
ROCPROF = TraceFormat(
    _ROCPROF.format,
    _ROCPROF.name,
    _recognises_rocprof,
    _rocprof,
)
