"""The databases of `nsys export --type sqlite`, in which empty tables are absent and columns differ by version."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from telemetry_profile.facts.device_timeline import Timeline
from telemetry_profile.facts.kernel_kinds import work_of
from telemetry_profile.facts.sql_columns import NO_NAME, add_calls, columns_of, integer, interval, records, shape, text
from telemetry_profile.format_contract import Card, DatabaseFormat, Facts, Schema, Tables, Work

_TOOL = "Nsight Systems"
_ACTIVITY = "CUPTI_ACTIVITY_KIND_"
_RUN_COLUMNS = ("start", "end", "globalPid", "deviceId")
_KERNEL_COLUMNS = ("demangledName", "shortName", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
_RANGE_COLUMNS = ("start", "end", "text", "textId", "globalTid")
_CARD_COLUMNS = ("id", "cuDevice", "name", "busLocation", "uuid")
# CUpti_ActivityMemcpyKind, in the words of nsys; 11 to 13 are pages of unified memory.
_COPIES: Mapping[int | None, str] = {
    1: "Host-to-Device", 2: "Device-to-Host", 3: "Host-to-Array", 4: "Array-to-Host", 5: "Array-to-Array",
    6: "Array-to-Device", 7: "Device-to-Array", 8: "Device-to-Device", 9: "Host-to-Host", 10: "Peer-to-Peer",
    11: "Unified Host-to-Device", 12: "Unified Device-to-Host", 13: "Unified Device-to-Device",
}  # fmt: skip
_VERSION = re.compile(r"_v\d+(_ptsz|_ptds)?\Z")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", re.IGNORECASE)

# The columns of a run, its name and kind of work, and its grid and block.
_Run = tuple[Sequence[Any], tuple[str, Work], str, str]


def _recognises(schema: Schema) -> bool:
    return "StringIds" in schema and any(
        name.startswith((_ACTIVITY, "TARGET_INFO_", "NVTX_EVENTS", "ANALYSIS_DETAILS", "OSRT_API")) for name in schema
    )


def _read(tables: Tables) -> Facts:
    sessions = records(tables, "TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",))
    session, timeline = next((integer(begin) for (begin,) in sessions), None), Timeline()
    words: dict[object, object] = dict(records(tables, "StringIds", ("id", "value")))
    cards = _Cards(tables, timeline)
    for (start, end, *card), (name, work), grid, block in chain(_kernels(tables, words), _others(tables)):
        begin, length = _interval(start, end, session)
        timeline.add(cards.key(*card), work, begin, length, name, grid, block)
    _host(tables, timeline, words, session)
    return timeline.facts("nsys-sqlite", _TOOL, "none" if session is None else "unix")


def _interval(start: object, end: object, session: int | None) -> tuple[int | None, int | None]:
    begin, length = interval(start, end)
    return None if begin is None else begin + (session or 0), length


class _Cards:
    """The cards: nsys numbers them for each process if CUDA_VISIBLE_DEVICES differs."""

    def __init__(self, tables: Tables, timeline: Timeline) -> None:
        self._timeline = timeline
        self._cards: dict[int | None, Card] = {}
        self._by_number: dict[int | None, int | None] = {}
        for table in ("TARGET_INFO_GPU", "TARGET_INFO_CUDA_GPU"):
            for gpu, in_cuda, name, bus, uuid in records(tables, table, _CARD_COLUMNS):
                number = integer(gpu)
                self._cards[number] = Card(number, text(name), _uuid(text(uuid)), text(bus).lower())
                self._by_number[number if in_cuda is None else integer(in_cuda)] = number
        self._by_process = {
            (integer(process), integer(in_cuda)): integer(number)
            for process, in_cuda, number in records(tables, "TARGET_INFO_CUDA_DEVICE", ("pid", "cudaId", "gpuId"))
        }
        self._keys: dict[tuple[object, object], Hashable] = {}

    def key(self, of_process: object, device: object) -> Hashable:
        """Return the key of a card in the timeline."""
        seen = of_process, device
        if seen not in self._keys:
            process, counted = _process(of_process), integer(device)
            number = self._by_process.get((process, counted), self._by_number.get(counted))
            card = self._cards.get(number)
            self._keys[seen] = (counted if card is None else number, card is None)
            self._timeline.set_card(self._keys[seen], card or Card(counted), process=process)
        return self._keys[seen]


def _uuid(printed: str) -> str:
    return f"GPU-{printed.lower()}" if _UUID.match(printed) else printed


def _process(serialized: object) -> int | None:
    """Return the process in a global number of nsys: 24 bits, above 24 bits for the thread."""
    number = integer(serialized)
    return None if number is None else number >> 24 & 0xFFFFFF


def _kernels(tables: Tables, words: Mapping[object, object]) -> Iterator[_Run]:
    seen: dict[tuple[object, object], tuple[str, Work]] = {}
    for table in (f"{_ACTIVITY}KERNEL", f"{_ACTIVITY}CONCURRENT_KERNEL"):
        for *run, demangled, short, x, y, z, of_x, of_y, of_z in records(
            tables, table, (*_RUN_COLUMNS, *_KERNEL_COLUMNS)
        ):
            name_and_work = seen.get((demangled, short))
            if name_and_work is None:
                name = text(words.get(demangled)) or text(words.get(short)) or NO_NAME
                name_and_work = seen[demangled, short] = name, work_of(name)
            yield run, name_and_work, shape(x, y, z), shape(of_x, of_y, of_z)


def _others(tables: Tables) -> Iterator[_Run]:
    """Yield copies, and whole CUDA graphs, whose kernels were not traced."""
    for *run, graph in records(tables, f"{_ACTIVITY}GRAPH_TRACE", (*_RUN_COLUMNS, "graphId")):
        yield run, (f"CUDA graph {integer(graph)}", "compute"), "", ""
    for *run, kind in records(tables, f"{_ACTIVITY}MEMCPY", (*_RUN_COLUMNS, "copyKind")):
        yield run, (f"[CUDA memcpy {_COPIES.get(integer(kind), 'of unknown kind')}]", "copy"), "", ""
    for *run, _ in records(tables, f"{_ACTIVITY}MEMSET", (*_RUN_COLUMNS, "memKind")):
        yield run, ("[CUDA memset]", "copy"), "", ""


def _host(tables: Tables, timeline: Timeline, words: Mapping[object, object], session: int | None) -> None:
    """Add the ranges that the program marked, and the calls of CUDA."""
    for start, end, name, word, thread in records(tables, "NVTX_EVENTS", _RANGE_COLUMNS):
        if end is not None:
            begin, length = _interval(start, end, session)
            timeline.marked(text(name) or text(words.get(word)), begin, length, _process(thread))
    functions = {number: _VERSION.sub("", text(word)) for number, word in words.items()}
    table = f"{_ACTIVITY}RUNTIME"
    add_calls(timeline, tables, table, columns_of(tables.schema, table, ("start", "end", "nameId")), functions)


FORMAT = DatabaseFormat("nsys-sqlite", _TOOL, _recognises, _read)
