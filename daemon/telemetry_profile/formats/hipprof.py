"""The databases, counters and Chrome traces of hipprof (Hygon DTK), and the similar Chrome traces of rocprof up to ROCm 6."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
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
    Tables,
    TextFormat,
    TraceEvent,
    TraceFormat,
    TraceSample,
    largest_first,
)

_TOOL = "hipprof"
# The tables of each kind of event, host and process; their names contain the address of the node, which is never shown.
_KERNELS, _COPIES, _RANGES, _MPI = "HIPOPS_", "HIPCOPY_", "HIPTX_", "MPI_"
_COPY_COLUMNS = ("BeginNs", "EndNs", "dev_id", "Kind", "MemoryType")
# The command of the copy as a number of OpenCL (CL_COMMAND_READ_BUFFER and so on), in the words of hipprof's JSON; and the known MemoryTypes.
_COMMANDS: Mapping[int | None, str] = {
    0x11F3: "DeviceToHost", 0x11F4: "HostToDevice", 0x11F5: "DeviceToDevice", 0x1207: "Memset",
    0x1201: "DeviceToHost", 0x1202: "HostToDevice", 0x1203: "DeviceToDevice",
}  # fmt: skip
_MEMORY_TYPES: Mapping[int | None, str] = {0: "Memset", 4: "HostToDevice", 6: "DeviceToHost"}
# address _ process _ time
_PROCESS = re.compile(r"(?P<host>.+)_\d+_\d+\Z")
_DEVICE_BITS = 2 | 4  # STR_TABLE.TYPE is a sum of kinds of events: 2 kernels, 4 copies


def _read_database(tables: Tables) -> Facts:
    timeline = Timeline()
    cards, names = _Cards(tables, timeline), _Names(tables)
    for process, (start, end, device, number) in _rows(tables, _KERNELS, ("BeginNs", "EndNs", "dev_id", "Name")):
        name = names.of_kernel(process, number)
        timeline.add(cards.key(process, device), work_of(name), *interval(start, end), name)
    for process, (start, end, device, command, kind) in _rows(tables, _COPIES, _COPY_COLUMNS):
        name = _COMMANDS.get(integer(command)) or _MEMORY_TYPES.get(integer(kind)) or "Memcpy"
        timeline.add(cards.key(process, device), "copy", *interval(start, end), name)
    # The calls of HIP are left out: the database has the numbers of functions, and not their names.
    for process, (start, end, number) in _rows(tables, _RANGES, ("BeginNs", "EndNs", "Name")):
        timeline.marked(names.of_range(process, number), *interval(start, end), process)
    for _, (name, elapsed) in _rows(tables, _MPI, ("MPI_TYPE", "Elapse")):
        timeline.call(text(name) or NO_NAME, integer(elapsed))
    return timeline.facts("hipprof-database", _TOOL, "unix")


def _rows(tables: Tables, kind: str, wanted: Sequence[str]) -> Iterator[tuple[str, Row]]:
    """Yield the rows of one kind of event with the processes of their tables."""
    for table in named(tables.schema, kind):
        process = table[len(kind) :]
        if _PROCESS.match(process):
            for row in records(tables, table, wanted):
                yield process, row


class _Cards:
    """The cards: the processes of a node share their numbers, but each rank numbers the cards that it may use."""

    def __init__(self, tables: Tables, timeline: Timeline) -> None:
        self._timeline = timeline
        self._ranks = {process: integer(rank) for process, rank in records(tables, "CONFIG", ("KEY", "RANK_ID"))}
        self._keys: dict[tuple[str, object], Hashable] = {}

    def key(self, process: str, device: object) -> Hashable:
        """Return the key of a card in the timeline."""
        seen = process, device
        if seen not in self._keys:
            rank, number = self._ranks.get(process), integer(device)
            rank = None if rank is None or rank < 0 else rank
            host = _PROCESS.sub(r"\g<host>", process) if rank is None else ""
            self._keys[seen] = (host, rank, number)
            self._timeline.set_card(self._keys[seen], Card(number), rank, process)
        return self._keys[seen]


class _Names:
    """The strings that other tables refer to by number; each process has its own numbers."""

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
        """Return the name of a kernel."""
        return self._on_device.get((process, str(number))) or NO_NAME

    def of_range(self, process: str, number: object) -> str:
        """Return the name of a range that the program marked, which may be stored instead of a number."""
        key = process, str(number)
        return self._on_host.get(key) or self._on_device.get(key) or text(number)


DATABASE = DatabaseFormat(
    "hipprof-database", _TOOL, lambda schema: "CONFIG" in schema and "SUMMARY" in schema, _read_database
)


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
    """Yield the values below each kernel's name, with their units."""
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
    grid, size = block.get("grid size", ""), block.get("work group size", "")
    kernel, before = Kernel(name, work_of(name), 1, length, length, grid, size), kernels.get(name)
    kernels[name] = kernel if before is None else before.joined(kernel)


COUNTERS = TextFormat("hipprof-pmc", _TOOL, _recognises_counters, _read_counters)


_Kind = Literal["kernel", "copy", "call", "range", ""]

# The kind of event by its category, in the traces of hipprof.
_CATEGORIES: Mapping[str, _Kind] = {
    "HIPOPS": "kernel",
    "HIPCOPY": "copy",
    "HIP": "call",
    "HSA": "call",
    "MPI": "call",
    "HIPTX": "range",
}
# The kind of event by the name of its process, in the traces of rocprof. Barriers are packets that wait, not work.
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


class _Reader:
    def __init__(self, format_name: str, tool: str, clock: Clock, clue: Clue) -> None:
        self._format, self._tool, self._clock = format_name, tool, clock
        self._timeline = Timeline()
        self._processes: dict[str, tuple[_Kind, int | None]] = {}  # by their printed numbers, quoted or not
        self._rank = rank_in_name(clue)

    def key(self, name: str, value: Any) -> None:  # JSON of any shape
        """Ignore the keys of the document, which describe the node and the command line."""

    def events(self, events: Sequence[TraceEvent]) -> None:
        for event in events:
            if event.ph == "M" and event.name == "process_name":
                self._processes[str(event.pid)] = _process(event.args().get("name"))
            elif event.ph == "X":
                kind = _CATEGORIES.get(event.cat) or self._processes.get(str(event.pid), ("", None))[0]
                if kind:
                    self._run(kind, event)

    def facts(self) -> Facts:
        devices = tuple(replace(device, rank=self._rank) for device in self._timeline.devices())
        # The clock applies if the nanoseconds are not Unix time.
        return self._timeline.facts(self._format, self._tool, clock_of(devices, otherwise=self._clock), devices)

    def _run(self, kind: _Kind, event: TraceEvent) -> None:
        arguments = event.args()
        begin, length = _span(event, arguments)
        if kind == "call":
            self._timeline.call(event.name, length)
            return
        if kind == "range":
            self._timeline.marked(event.name, begin, length)
            return
        index = _index(arguments, self._processes.get(str(event.pid), ("", None))[1])
        self._timeline.set_card(index, Card(index))
        self._timeline.add(index, "copy" if kind == "copy" else work_of(event.name), begin, length, event.name)


def _process(name: object) -> tuple[_Kind, int | None]:
    """Return the kind of the events of a process, and the number of its device."""
    if not isinstance(name, str):
        return "", None
    kind: _Kind = next((kind for pattern, kind in _PROCESSES if pattern.match(name)), "")
    number = _NUMBER.search(name) if kind == "kernel" else None
    return kind, int(number[0]) if number else None


def _index(arguments: Mapping[str, Any], of_process: int | None) -> int | None:
    printed = next((str(arguments[key]) for key in _DEVICE_KEYS if key in arguments), "")
    return int(printed) if _NUMBER.fullmatch(printed) else of_process


def _span(event: TraceEvent, arguments: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return begin and length, from the nanoseconds among the arguments if they exist."""
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


HIPPROF = TraceFormat("hipprof-trace", _TOOL, _recognises_hipprof, partial(_Reader, "hipprof-trace", _TOOL, "none"))
ROCPROF = TraceFormat(
    "rocprof-trace", "rocprof", _recognises_rocprof, partial(_Reader, "rocprof-trace", "rocprof", "boot")
)
