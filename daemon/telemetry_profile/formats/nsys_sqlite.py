"""Reads databases of `nsys export --type sqlite`."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from telemetry_profile.facts.device_timeline import Timeline
from telemetry_profile.facts.kernel_kinds import work_of
from telemetry_profile.facts.sql_columns import NO_NAME, add_calls, columns_of, extent, integer, records, shape, text
from telemetry_profile.format_contract import Card, DatabaseFormat, Facts, Schema, Tables, Work

_TOOL = "Nsight Systems"
_ACTIVITY = "CUPTI_ACTIVITY_KIND_"
_EXECUTION_COLUMNS = ("start", "end", "globalPid", "deviceId")
_KERNEL_COLUMNS = ("demangledName", "shortName", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
_RANGE_COLUMNS = ("start", "end", "text", "textId", "globalTid")
_CARD_COLUMNS = ("id", "cuDevice", "name", "busLocation", "uuid")
# Maps CUpti_ActivityMemcpyKind to the names of nsys.
_COPIES: Mapping[int | None, str] = {
    1: "Host-to-Device", 2: "Device-to-Host", 3: "Host-to-Array", 4: "Array-to-Host", 5: "Array-to-Array",
    6: "Array-to-Device", 7: "Device-to-Array", 8: "Device-to-Device", 9: "Host-to-Host", 10: "Peer-to-Peer",
    11: "Unified Host-to-Device", 12: "Unified Device-to-Host", 13: "Unified Device-to-Device",
}  # fmt: skip
_VERSION_SUFFIX = re.compile(r"_v\d+(_ptsz|_ptds)?\Z")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", re.IGNORECASE)

# An execution: (values of _EXECUTION_COLUMNS, (name, kind of work), grid, block).
_Execution = tuple[Sequence[Any], tuple[str, Work], str, str]


def _recognises(schema: Schema) -> bool:
    return "StringIds" in schema and any(
        name.startswith((_ACTIVITY, "TARGET_INFO_", "NVTX_EVENTS", "ANALYSIS_DETAILS", "OSRT_API")) for name in schema
    )


def _read(tables: Tables) -> Facts:
    start_times = records(tables, "TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",))
    session_start, timeline = next((integer(begin) for (begin,) in start_times), None), Timeline()
    strings: dict[object, object] = dict(records(tables, "StringIds", ("id", "value")))
    cards = _Cards(tables, timeline)
    for (start, end, *card), (name, work), grid, block in chain(_kernels(tables, strings), _copies_and_graphs(tables)):
        begin, length = _session_extent(start, end, session_start)
        timeline.add(cards.key(*card), work, begin, length, name, grid, block)
    _add_host_activity(tables, timeline, strings, session_start)
    return timeline.facts("nsys-sqlite", _TOOL, "none" if session_start is None else "unix")


def _session_extent(start: object, end: object, session_start: int | None) -> tuple[int | None, int | None]:
    begin, length = extent(start, end)
    return None if begin is None else begin + (session_start or 0), length


class _Cards:
    """Finds the card for a process and a device number, which may differ between processes."""

    def __init__(self, tables: Tables, timeline: Timeline) -> None:
        self._timeline = timeline
        self._cards: dict[int | None, Card] = {}
        self._gpu_id_by_number: dict[int | None, int | None] = {}
        for table in ("TARGET_INFO_GPU", "TARGET_INFO_CUDA_GPU"):
            for gpu, cuda_number, name, bus, uuid in records(tables, table, _CARD_COLUMNS):
                gpu_id = integer(gpu)
                self._cards[gpu_id] = Card(gpu_id, text(name), _prefixed_uuid(text(uuid)), text(bus).lower())
                self._gpu_id_by_number[gpu_id if cuda_number is None else integer(cuda_number)] = gpu_id
        self._gpu_id_by_process = {
            (integer(process), integer(cuda_number)): integer(gpu_id)
            for process, cuda_number, gpu_id in records(tables, "TARGET_INFO_CUDA_DEVICE", ("pid", "cudaId", "gpuId"))
        }
        self._keys: dict[tuple[object, object], Hashable] = {}

    def key(self, global_pid: object, device: object) -> Hashable:
        lookup = global_pid, device
        if lookup not in self._keys:
            process, device_number = _process_id(global_pid), integer(device)
            gpu_id = self._gpu_id_by_process.get((process, device_number), self._gpu_id_by_number.get(device_number))
            card = self._cards.get(gpu_id)
            self._keys[lookup] = (device_number if card is None else gpu_id, card is None)
            self._timeline.set_card(self._keys[lookup], card or Card(device_number), process=process)
        return self._keys[lookup]


def _prefixed_uuid(printed: str) -> str:
    return f"GPU-{printed.lower()}" if _UUID.match(printed) else printed


def _process_id(global_id: object) -> int | None:
    """Return the process ID in a global process or thread ID of nsys."""
    number = integer(global_id)
    return None if number is None else number >> 24 & 0xFFFFFF  # the lowest 24 bits are the thread ID


def _kernels(tables: Tables, strings: Mapping[object, object]) -> Iterator[_Execution]:
    names_and_kinds: dict[tuple[object, object], tuple[str, Work]] = {}
    for table in (f"{_ACTIVITY}KERNEL", f"{_ACTIVITY}CONCURRENT_KERNEL"):
        for *execution, demangled, short, x, y, z, block_x, block_y, block_z in records(
            tables, table, (*_EXECUTION_COLUMNS, *_KERNEL_COLUMNS)
        ):
            name_and_kind = names_and_kinds.get((demangled, short))
            if name_and_kind is None:
                name = text(strings.get(demangled)) or text(strings.get(short)) or NO_NAME
                name_and_kind = names_and_kinds[demangled, short] = name, work_of(name)
            yield execution, name_and_kind, shape(x, y, z), shape(block_x, block_y, block_z)


def _copies_and_graphs(tables: Tables) -> Iterator[_Execution]:
    """Yield the copies, and the CUDA graphs that were traced as a whole."""
    for *execution, graph in records(tables, f"{_ACTIVITY}GRAPH_TRACE", (*_EXECUTION_COLUMNS, "graphId")):
        yield execution, (f"CUDA graph {integer(graph)}", "compute"), "", ""
    for *execution, kind in records(tables, f"{_ACTIVITY}MEMCPY", (*_EXECUTION_COLUMNS, "copyKind")):
        yield execution, (f"[CUDA memcpy {_COPIES.get(integer(kind), 'of unknown kind')}]", "copy"), "", ""
    for *execution, _ in records(tables, f"{_ACTIVITY}MEMSET", (*_EXECUTION_COLUMNS, "memKind")):
        yield execution, ("[CUDA memset]", "copy"), "", ""


def _add_host_activity(
    tables: Tables, timeline: Timeline, strings: Mapping[object, object], session_start: int | None
) -> None:
    for start, end, name, string_id, thread in records(tables, "NVTX_EVENTS", _RANGE_COLUMNS):
        if end is not None:
            begin, length = _session_extent(start, end, session_start)
            timeline.add_range(text(name) or text(strings.get(string_id)), begin, length, _process_id(thread))
    functions = {number: _VERSION_SUFFIX.sub("", text(string)) for number, string in strings.items()}
    table = f"{_ACTIVITY}RUNTIME"
    add_calls(timeline, tables, table, columns_of(tables.schema, table, ("start", "end", "nameId")), functions)


FORMAT = DatabaseFormat("nsys-sqlite", _TOOL, _recognises, _read)
