"""Nsight Systems: what `nsys export --type sqlite` writes. Tables without data are absent; columns differ by version."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator

from telemetry_parsers.profiles.columns import Row, integer, length, named, records, shape, text
from telemetry_parsers.profiles.contract import DatabaseFormat, Schema, Tables
from telemetry_parsers.profiles.facts import Card, Facts
from telemetry_parsers.profiles.steps import is_kept
from telemetry_parsers.profiles.timeline import Timeline
from telemetry_parsers.profiles.words import work_of

_TOOL = "Nsight Systems"
_ACTIVITY = "CUPTI_ACTIVITY_KIND_"
_DEVICE_COLUMNS = ("start", "end", "deviceId", "globalPid")
_KERNEL_COLUMNS = ("demangledName", "shortName", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
_CARD_COLUMNS = ("id", "cuDevice", "name", "busLocation", "uuid")
# CUpti_ActivityMemcpyKind, in the words of nsys; 11 to 13 are pages that unified memory moves.
_COPIES = {
    1: "Host-to-Device", 2: "Device-to-Host", 3: "Host-to-Array", 4: "Array-to-Host", 5: "Array-to-Array",
    6: "Array-to-Device", 7: "Device-to-Array", 8: "Device-to-Device", 9: "Host-to-Host", 10: "Peer-to-Peer",
    11: "Unified Host-to-Device", 12: "Unified Device-to-Host", 13: "Unified Device-to-Device",
}  # fmt: skip
_VERSION = re.compile(r"_v\d+(_ptsz|_ptds)?\Z")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", re.IGNORECASE)


def _recognises(schema: Schema) -> bool:
    return "StringIds" in schema and any(
        name.startswith((_ACTIVITY, "TARGET_INFO_", "NVTX_EVENTS", "ANALYSIS_DETAILS", "OSRT_API")) for name in schema
    )


def _read(tables: Tables) -> Facts:
    session, timeline = _session_begin(tables), Timeline()
    words, cards = _Words(tables), _Cards(tables, timeline)
    for table in (f"{_ACTIVITY}KERNEL", f"{_ACTIVITY}CONCURRENT_KERNEL"):
        for row in records(tables, table, (*_DEVICE_COLUMNS, *_KERNEL_COLUMNS)):
            name = words.of(row.get("demangledName"), row.get("shortName"))
            grid = shape(row.get("gridX"), row.get("gridY"), row.get("gridZ"))
            block = shape(row.get("blockX"), row.get("blockY"), row.get("blockZ"))
            timeline.add(cards.key(row), work_of(name), _begin(row, session), _length(row), name, grid, block)
    # A whole CUDA graph, where its nodes were not traced.
    for row in records(tables, f"{_ACTIVITY}GRAPH_TRACE", (*_DEVICE_COLUMNS, "graphId")):
        name = f"CUDA graph {integer(row.get('graphId'))}"
        timeline.add(cards.key(row), "compute", _begin(row, session), _length(row), name)
    for name, row in _copies(tables):
        timeline.add(cards.key(row), "copy", _begin(row, session), _length(row), name)
    _host(tables, timeline, words, session)
    return Facts(
        "nsys-sqlite",
        _TOOL,
        "none" if session is None else "unix",
        devices=timeline.devices(),
        calls=timeline.calls(),
        problems=timeline.problems(),
    )


class _Words:
    """The strings that other tables name by number."""

    def __init__(self, tables: Tables) -> None:
        self._by_number = {
            row.get("id"): text(row.get("value")) for row in records(tables, "StringIds", ("id", "value"))
        }

    def of(self, *numbers: object) -> str:
        """The first that is there."""
        found = (self._by_number.get(number, "") for number in numbers)
        return next((word for word in found if word), "(no name)")


class _Cards:
    """The cards, by the number that a process has for each: where CUDA_VISIBLE_DEVICES differs, every process counts its own."""

    def __init__(self, tables: Tables, timeline: Timeline) -> None:
        self._timeline = timeline
        self._cards: dict[int | None, Card] = {}
        self._by_number: dict[int | None, int | None] = {}
        for table in ("TARGET_INFO_GPU", "TARGET_INFO_CUDA_GPU"):
            for row in records(tables, table, _CARD_COLUMNS):
                number = integer(row.get("id"))
                self._cards[number] = _card(number, row)
                self._by_number[number if integer(row.get("cuDevice")) is None else integer(row.get("cuDevice"))] = (
                    number
                )
        self._by_process = {
            (integer(row.get("pid")), integer(row.get("cudaId"))): integer(row.get("gpuId"))
            for row in records(tables, "TARGET_INFO_CUDA_DEVICE", ("gpuId", "cudaId", "pid"))
        }
        self._keys: dict[tuple[object, object], Hashable] = {}

    def key(self, row: Row) -> Hashable:
        """The key of the card on which something ran."""
        seen = row.get("globalPid"), row.get("deviceId")
        if seen not in self._keys:
            process, device = _process(seen[0]), integer(seen[1])
            number = self._by_process.get((process, device), self._by_number.get(device))
            card = self._cards.get(number)
            self._keys[seen] = (device if card is None else number, card is None)
            self._timeline.card(self._keys[seen], card or Card(device), process=process)
        return self._keys[seen]


def _card(number: int | None, row: Row) -> Card:
    printed = text(row.get("uuid"))
    uuid = f"GPU-{printed.lower()}" if _UUID.match(printed) else printed
    return Card(number, text(row.get("name")), uuid, text(row.get("busLocation")).lower())


def _process(serialized: object) -> int | None:
    """The process in one of nsys's global numbers: 24 bits of it, above 24 bits for the thread."""
    number = integer(serialized)
    return None if number is None else number >> 24 & 0xFFFFFF


def _session_begin(tables: Tables) -> int | None:
    for row in records(tables, "TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",)):
        return integer(row.get("utcEpochNs"))
    return None


def _copies(tables: Tables) -> Iterator[tuple[str, Row]]:
    for row in records(tables, f"{_ACTIVITY}MEMCPY", (*_DEVICE_COLUMNS, "copyKind")):
        yield f"[CUDA memcpy {_COPIES.get(integer(row.get('copyKind')) or 0, 'of unknown kind')}]", row
    for row in records(tables, f"{_ACTIVITY}MEMSET", _DEVICE_COLUMNS):
        yield "[CUDA memset]", row


def _host(tables: Tables, timeline: Timeline, words: _Words, session: int | None) -> None:
    """Ranges that the program marked, and calls of CUDA."""
    for row in records(tables, "NVTX_EVENTS", ("start", "end", "text", "textId", "globalTid")):
        if row.get("end") is not None:
            name = text(row.get("text")) or words.of(row.get("textId"))
            is_kept(timeline, name, _begin(row, session), _length(row), _process(row.get("globalTid")))
    for table in named(tables.schema, f"{_ACTIVITY}RUNTIME"):
        for row in records(tables, table, ("start", "end", "nameId")):
            timeline.call(_VERSION.sub("", words.of(row.get("nameId"))), _length(row))


def _begin(row: Row, session: int | None) -> int | None:
    start = integer(row.get("start"))
    return None if start is None else (session or 0) + start


def _length(row: Row) -> int | None:
    return length(row.get("start"), row.get("end"))


FORMAT = DatabaseFormat("nsys-sqlite", _TOOL, "tables StringIds and CUPTI_ACTIVITY_KIND_…", _recognises, _read)
