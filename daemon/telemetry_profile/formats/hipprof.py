"""What hipprof (Hygon DTK) writes; and the Chrome traces of rocprof up to ROCm 6, which are alike.

Its database has a table for each kind of event, host and process, of several processes when merged; the tables' names hold the node's address,
which is never shown. Its performance counters are a block for each dispatch, with the name of the kernel, its launch and its time. In the traces
the printed nanoseconds of each event stand in its arguments.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from telemetry_profile.facts.device_timeline import LONGEST_NS, Timeline
from telemetry_profile.facts.kernel_kinds import work_of
from telemetry_profile.facts.printed_numbers import MS, NS, US, S, nanoseconds
from telemetry_profile.facts.sql_columns import NO_NAME, Row, integer, interval, named, records, text
from telemetry_profile.facts.trace_facts import clock_of, rank_in_name
from telemetry_profile.format_contract import (
    Card,
    Clock,
    Clue,
    DatabaseFormat,
    Device,
    Facts,
    Kernel,
    Schema,
    Tables,
    TextFormat,
    TraceEvent,
    TraceFormat,
    TraceSample,
    largest_first,
)

_TOOL = "hipprof"
_KERNELS, _COPIES, _RANGES, _MPI = "HIPOPS_", "HIPCOPY_", "HIPTX_", "MPI_"
_COPY_COLUMNS = ("BeginNs", "EndNs", "dev_id", "Kind", "MemoryType")
# The command of the copy, as OpenCL numbers them (CL_COMMAND_READ_BUFFER and so on), in the words of hipprof's JSON;
# MemoryType says the same in short, of those kinds that it was seen with.
_COMMANDS: Mapping[int | None, str] = {
    0x11F3: "DeviceToHost", 0x11F4: "HostToDevice", 0x11F5: "DeviceToDevice", 0x1207: "Memset",
    0x1201: "DeviceToHost", 0x1202: "HostToDevice", 0x1203: "DeviceToDevice",
}  # fmt: skip
_MEMORY_TYPES: Mapping[int | None, str] = {0: "Memset", 4: "HostToDevice", 6: "DeviceToHost"}
# address _ process _ time
_PROCESS = re.compile(r"(?P<host>.+)_\d+_\d+\Z")
_DEVICE_BITS = 2 | 4  # the kinds of events, of which STR_TABLE.TYPE is a sum: 2 kernels, 4 copies


def _recognises_database(schema: Schema) -> bool:
    return "CONFIG" in schema and "SUMMARY" in schema


def _read_database(tables: Tables) -> Facts:
    timeline = Timeline()
    cards, names = _Cards(tables, timeline), _Names(tables)
    for process, (start, end, device, number) in _rows(tables, _KERNELS, ("BeginNs", "EndNs", "dev_id", "Name")):
        name = names.of_kernel(process, number)
        timeline.add(cards.key(process, device), work_of(name), *interval(start, end), name)
    for process, (start, end, device, command, kind) in _rows(tables, _COPIES, _COPY_COLUMNS):
        name = _COMMANDS.get(integer(command)) or _MEMORY_TYPES.get(integer(kind)) or "Memcpy"
        timeline.add(cards.key(process, device), "copy", *interval(start, end), name)
    # The names of HIP's functions are not in the database, only their numbers.
    for process, (start, end, number) in _rows(tables, _RANGES, ("BeginNs", "EndNs", "Name")):
        timeline.marked(names.of_range(process, number), *interval(start, end), process)
    for _, (name, elapsed) in _rows(tables, _MPI, ("MPI_TYPE", "Elapse")):
        timeline.call(text(name) or NO_NAME, integer(elapsed))
    return timeline.facts("hipprof-database", _TOOL, "unix")


def _rows(tables: Tables, kind: str, wanted: Sequence[str]) -> Iterator[tuple[str, Row]]:
    """The rows of one kind of event, each with the process whose table it is in."""
    for table in named(tables.schema, kind):
        process = table[len(kind) :]
        if _PROCESS.match(process):
            for row in records(tables, table, wanted):
                yield process, row


class _Cards:
    """The cards: the processes of one node share them; but each rank counts those that it may use."""

    def __init__(self, tables: Tables, timeline: Timeline) -> None:
        self._timeline = timeline
        self._ranks = {process: integer(rank) for process, rank in records(tables, "CONFIG", ("KEY", "RANK_ID"))}
        self._keys: dict[tuple[str, object], Hashable] = {}

    def key(self, process: str, device: object) -> Hashable:
        """The key of the card on which something ran."""
        seen = process, device
        if seen not in self._keys:
            rank, number = self._ranks.get(process), integer(device)
            rank = None if rank is None or rank < 0 else rank
            host = _PROCESS.sub(r"\g<host>", process) if rank is None else ""
            self._keys[seen] = (host, rank, number)
            self._timeline.card(self._keys[seen], Card(number), rank, process)
        return self._keys[seen]


class _Names:
    """The words that other tables name by number, which each process numbers for itself."""

    def __init__(self, tables: Tables) -> None:
        self._on_device: dict[tuple[object, str], str] = {}
        self._on_host: dict[tuple[object, str], str] = {}
        for process, type_bits, number, name in records(
            tables, "STR_TABLE", ("CONFIG_KEY", "TYPE", "STR_ID", "STR_NAME")
        ):
            kinds = integer(type_bits)
            names = self._on_device if kinds is None or kinds & _DEVICE_BITS else self._on_host
            names[process, str(number)] = text(name)

    def of_kernel(self, process: str, number: object) -> str:
        """The name of a kernel."""
        return self._on_device.get((process, str(number))) or NO_NAME

    def of_range(self, process: str, number: object) -> str:
        """The name of a range that the program marked, which may stand there itself."""
        key = process, str(number)
        return self._on_host.get(key) or self._on_device.get(key) or text(number)


DATABASE = DatabaseFormat("hipprof-database", _TOOL, _recognises_database, _read_database)


_KERNEL_NAME = re.compile(r'\s*kernel-name\s*:\s*"(?P<name>.*)"')
_VALUE = re.compile(r"\s*(?P<words>[A-Za-z][\w -]*?)\s{2,}(?P<value>\S+?)(?:\((?P<unit>[\w%]+)\))?\s*\Z")
_UNITS = {"ns": NS, "us": US, "ms": MS, "s": S}
_REMARK = "counters run each kernel by itself: its times say nothing of a step"


def _recognises_counters(clue: Clue) -> bool:
    lines = clue.text.splitlines()
    return any(_KERNEL_NAME.match(line) for line in lines) and any("kernel dispatch index" in line for line in lines)


def _read_counters(_clue: Clue, lines: Iterable[str]) -> Facts:
    cards: dict[int | None, dict[str, Kernel]] = {}
    for block in _blocks(lines):
        length = nanoseconds(block.get("kernel time", ""), _UNITS.get(block.get("unit of kernel time", ""), 0) or S)
        if length is not None and 0 <= length < LONGEST_NS and "kernel time" in block:
            number = block.get("gpu id", "")
            kernels = cards.setdefault(int(number) if number.isdecimal() and len(number) < 9 else None, {})
            _count(kernels, block, length)
    devices = tuple(Device(Card(index), kernels=largest_first(of_card.values())) for index, of_card in cards.items())
    return Facts("hipprof-pmc", _TOOL, devices=devices, remarks=(_REMARK,) if devices else ())


def _blocks(lines: Iterable[str]) -> Iterator[Mapping[str, str]]:
    """The values below each kernel's name, with its units."""
    block: dict[str, str] = {}
    for line in lines:
        if found := _KERNEL_NAME.match(line):
            if block:
                yield block
            block = {"name": found["name"]}
        elif block and (value := _VALUE.match(line)):
            block[value["words"]] = value["value"]
            block[f"unit of {value['words']}"] = value["unit"] or ""
    if block:
        yield block


def _count(kernels: dict[str, Kernel], block: Mapping[str, str], length: int) -> None:
    name = block["name"]
    known = kernels.get(name) or Kernel(name, work_of(name), 0, 0)
    if length > (known.longest_ns if known.longest_ns is not None else -1):
        known = replace(
            known, longest_ns=length, grid=block.get("grid size", ""), block=block.get("work group size", "")
        )
    kernels[name] = replace(known, calls=known.calls + 1, total_ns=known.total_ns + length)


COUNTERS = TextFormat("hipprof-pmc", _TOOL, _recognises_counters, _read_counters)


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


_HIPPROF = _Tool("hipprof-trace", _TOOL, "none")
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
        return Facts(
            self._tool.format,
            self._tool.name,
            clock_of(devices, otherwise=self._tool.clock),
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


HIPPROF = TraceFormat(_HIPPROF.format, _HIPPROF.name, _recognises_hipprof, partial(_Reader, _HIPPROF))
ROCPROF = TraceFormat(_ROCPROF.format, _ROCPROF.name, _recognises_rocprof, partial(_Reader, _ROCPROF))
