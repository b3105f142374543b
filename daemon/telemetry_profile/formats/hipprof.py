"""Reads files of hipprof (Hygon DTK), and the similar traces of older rocprof."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from telemetry_profile.facts.device_timeline import MAX_LENGTH_NS, Timeline
from telemetry_profile.facts.kernel_kinds import work_of
from telemetry_profile.facts.printed_numbers import MS, NS, US, S, nanoseconds
from telemetry_profile.facts.sql_columns import NO_NAME, Row, extent, integer, records, tables_with_prefix, text
from telemetry_profile.facts.trace_facts import clock_of, rank_in_name
from telemetry_profile.format_contract import (
    Card,
    Clock,
    DatabaseFormat,
    Device,
    Facts,
    FileSample,
    Kernel,
    Tables,
    TextFormat,
    TraceEvent,
    TraceFormat,
    TraceSample,
    sort_kernels,
)

_TOOL = "hipprof"
# Prefixes of table names. The names contain the node's address, so they are never shown.
_KERNELS, _COPIES, _RANGES, _MPI = "HIPOPS_", "HIPCOPY_", "HIPTX_", "MPI_"
_COPY_COLUMNS = ("BeginNs", "EndNs", "dev_id", "Kind", "MemoryType")
# Maps OpenCL's command numbers to the names in hipprof's JSON.
_COMMANDS: Mapping[int | None, str] = {
    0x11F3: "DeviceToHost", 0x11F4: "HostToDevice", 0x11F5: "DeviceToDevice", 0x1207: "Memset",
    0x1201: "DeviceToHost", 0x1202: "HostToDevice", 0x1203: "DeviceToDevice",
}  # fmt: skip
_MEMORY_TYPES: Mapping[int | None, str] = {0: "Memset", 4: "HostToDevice", 6: "DeviceToHost"}
# Matches ADDRESS_PROCESS_TIME, which follows the prefix in a table's name.
_PROCESS = re.compile(r"(?P<host>.+)_\d+_\d+\Z")
_DEVICE_NAME_MASK = 0x2 | 0x4  # in STR_TABLE.TYPE, 0x2 marks the name of a kernel, and 0x4 that of a copy


def _read_database(tables: Tables) -> Facts:
    timeline = Timeline()
    cards, names = _Cards(tables, timeline), _EventNames(tables)
    for process, (start, end, device, name_id) in _event_rows(tables, _KERNELS, ("BeginNs", "EndNs", "dev_id", "Name")):
        name = names.kernel_name(process, name_id)
        timeline.add(cards.key(process, device), work_of(name), *extent(start, end), name)
    for process, (start, end, device, command, kind) in _event_rows(tables, _COPIES, _COPY_COLUMNS):
        name = _COMMANDS.get(integer(command)) or _MEMORY_TYPES.get(integer(kind)) or "Memcpy"
        timeline.add(cards.key(process, device), "copy", *extent(start, end), name)
    # HIP calls are ignored, because the database does not have the functions' names.
    for process, (start, end, name_id) in _event_rows(tables, _RANGES, ("BeginNs", "EndNs", "Name")):
        timeline.add_range(names.range_name(process, name_id), *extent(start, end), process)
    for _, (name, elapsed) in _event_rows(tables, _MPI, ("MPI_TYPE", "Elapse")):
        timeline.add_call(text(name) or NO_NAME, integer(elapsed))
    return timeline.facts("hipprof-database", _TOOL, "unix")


def _event_rows(tables: Tables, prefix: str, column_names: Sequence[str]) -> Iterator[tuple[str, Row]]:
    """Yield (process, row) for the rows of all tables with this prefix."""
    for table in tables_with_prefix(tables.schema, prefix):
        process = table[len(prefix) :]
        if _PROCESS.match(process):
            for row in records(tables, table, column_names):
                yield process, row


class _Cards:
    """Finds the card for a process and a device number."""

    def __init__(self, tables: Tables, timeline: Timeline) -> None:
        self._timeline = timeline
        self._ranks = {process: integer(rank) for process, rank in records(tables, "CONFIG", ("KEY", "RANK_ID"))}
        self._keys: dict[tuple[str, object], Hashable] = {}

    def key(self, process: str, device: object) -> Hashable:
        lookup = process, device
        if lookup not in self._keys:
            rank, device_number = self._ranks.get(process), integer(device)
            rank = None if rank is None or rank < 0 else rank
            host = _PROCESS.sub(r"\g<host>", process) if rank is None else ""
            self._keys[lookup] = (host, rank, device_number)
            self._timeline.set_card(self._keys[lookup], Card(device_number), rank, process)
        return self._keys[lookup]


class _EventNames:
    """Finds the names of kernels and ranges by process and name ID."""

    def __init__(self, tables: Tables) -> None:
        self._device_names: dict[tuple[object, str], str] = {}
        self._host_names: dict[tuple[object, str], str] = {}
        for process, type_bits, number, name in records(
            tables, "STR_TABLE", ("CONFIG_KEY", "TYPE", "STR_ID", "STR_NAME")
        ):
            bits = integer(type_bits)
            names = self._device_names if bits is None or bits & _DEVICE_NAME_MASK else self._host_names
            names[process, str(number)] = text(name)

    def kernel_name(self, process: str, name_id: object) -> str:
        return self._device_names.get((process, str(name_id))) or NO_NAME

    def range_name(self, process: str, name_id: object) -> str:
        key = process, str(name_id)
        return self._host_names.get(key) or self._device_names.get(key) or text(name_id)


DATABASE = DatabaseFormat(
    "hipprof-database", _TOOL, lambda schema: "CONFIG" in schema and "SUMMARY" in schema, _read_database
)


_NAME_LINE = re.compile(r'\s*kernel-name\s*:\s*"(?P<name>.*)"')
_VALUE_LINE = re.compile(r"\s*(?P<words>[A-Za-z][\w -]*?)\s{2,}(?P<value>\S+?)(?:\((?P<unit>[\w%]+)\))?\s*\Z")
_UNITS = {"ns": NS, "us": US, "ms": MS, "s": S}
_REMARK = "hipprof ran each kernel alone to read counters, so the times do not describe a step"


def _recognises_counters(file: FileSample) -> bool:
    lines = file.text.splitlines()
    return any(_NAME_LINE.match(line) for line in lines) and any("kernel dispatch index" in line for line in lines)


def _read_counters(_file: FileSample, lines: Iterable[str]) -> Facts:
    kernels_by_card: dict[int | None, dict[str, Kernel]] = {}
    for block in _kernel_blocks(lines):
        length = nanoseconds(block.get("kernel time", ""), _UNITS.get(block.get("unit of kernel time", ""), 0) or S)
        if length is not None and 0 <= length < MAX_LENGTH_NS and "kernel time" in block:
            gpu_id = block.get("gpu id", "")
            kernels = kernels_by_card.setdefault(int(gpu_id) if gpu_id.isdecimal() and len(gpu_id) < 9 else None, {})
            _add_kernel(kernels, block, length)
    cards = kernels_by_card.items()
    devices = tuple(Device(Card(index), kernels=sort_kernels(kernels.values())) for index, kernels in cards)
    return Facts("hipprof-pmc", _TOOL, devices=devices, remarks=(_REMARK,) if devices else ())


def _kernel_blocks(lines: Iterable[str]) -> Iterator[Mapping[str, str]]:
    """Yield the printed values and their units for each execution of a kernel."""
    block: dict[str, str] = {}
    for line in lines:
        if match := _NAME_LINE.match(line):
            if block:
                yield block
            block = {"name": match["name"]}
        elif block and (value := _VALUE_LINE.match(line)):
            block[value["words"]] = value["value"]
            block[f"unit of {value['words']}"] = value["unit"] or ""
    if block:
        yield block


def _add_kernel(kernels: dict[str, Kernel], block: Mapping[str, str], length: int) -> None:
    name = block["name"]
    grid, block_size = block.get("grid size", ""), block.get("work group size", "")
    kernel, previous = Kernel(name, work_of(name), 1, length, length, grid, block_size), kernels.get(name)
    kernels[name] = kernel if previous is None else previous.plus(kernel)


COUNTERS = TextFormat("hipprof-pmc", _TOOL, _recognises_counters, _read_counters)


_EventKind = Literal["kernel", "copy", "call", "range", ""]

# Maps hipprof's event categories to kinds.
_CATEGORIES: Mapping[str, _EventKind] = {
    "HIPOPS": "kernel",
    "HIPCOPY": "copy",
    "HIP": "call",
    "HSA": "call",
    "MPI": "call",
    "HIPTX": "range",
}
# Maps rocprof's process names to kinds of events. Barriers only wait, and are ignored.
_PROCESSES: tuple[tuple[re.Pattern[str], _EventKind], ...] = (
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
    def __init__(self, format_name: str, tool: str, clock: Clock, file: FileSample) -> None:
        self._format, self._tool, self._clock = format_name, tool, clock
        self._timeline = Timeline()
        # Maps process numbers to the kind of events and the device number.
        self._processes: dict[str, tuple[_EventKind, int | None]] = {}
        self._rank = rank_in_name(file)

    def read_key(self, name: str, value: Any) -> None:  # JSON of any shape
        """Do nothing: the document's keys only describe the node and the command line."""

    def read_events(self, events: Sequence[TraceEvent]) -> None:
        for event in events:
            if event.ph == "M" and event.name == "process_name":
                self._processes[str(event.pid)] = _kind_and_device(event.args().get("name"))
            elif event.ph == "X":
                kind = _CATEGORIES.get(event.cat) or self._processes.get(str(event.pid), ("", None))[0]
                if kind:
                    self._add_event(kind, event)

    def facts(self) -> Facts:
        devices = tuple(replace(device, rank=self._rank) for device in self._timeline.devices())
        return self._timeline.facts(self._format, self._tool, clock_of(devices, default=self._clock), devices)

    def _add_event(self, kind: _EventKind, event: TraceEvent) -> None:
        arguments = event.args()
        begin, length = _event_extent(event, arguments)
        if kind == "call":
            self._timeline.add_call(event.name, length)
            return
        if kind == "range":
            self._timeline.add_range(event.name, begin, length)
            return
        index = _device_number(arguments, self._processes.get(str(event.pid), ("", None))[1])
        self._timeline.set_card(index, Card(index))
        self._timeline.add(index, "copy" if kind == "copy" else work_of(event.name), begin, length, event.name)


def _kind_and_device(name: object) -> tuple[_EventKind, int | None]:
    """Return the event kind and the device number that a process name shows."""
    if not isinstance(name, str):
        return "", None
    kind: _EventKind = next((kind for pattern, kind in _PROCESSES if pattern.match(name)), "")
    number_match = _NUMBER.search(name) if kind == "kernel" else None
    return kind, int(number_match[0]) if number_match else None


def _device_number(arguments: Mapping[str, Any], default: int | None) -> int | None:
    printed = next((str(arguments[key]) for key in _DEVICE_KEYS if key in arguments), "")
    return int(printed) if _NUMBER.fullmatch(printed) else default


def _event_extent(event: TraceEvent, arguments: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return (begin, length): the exact times in the arguments if present, else the event's less exact times."""
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
    kinds = {_kind_and_device(name)[0] for name in names}
    return "call" in kinds or {"copy", "kernel"} <= kinds


HIPPROF = TraceFormat("hipprof-trace", _TOOL, _recognises_hipprof, partial(_Reader, "hipprof-trace", _TOOL, "none"))
ROCPROF = TraceFormat(
    "rocprof-trace", "rocprof", _recognises_rocprof, partial(_Reader, "rocprof-trace", "rocprof", "boot")
)
