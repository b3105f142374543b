"""Nsight Systems: what `nsys export --type sqlite` writes. Tables without data are absent; columns differ by version."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from telemetry_parsers.profiles.columns import integer, named, records, shape
from telemetry_parsers.profiles.contract import DatabaseFormat, Schema, Tables
from telemetry_parsers.profiles.facts import Card, Facts
from telemetry_parsers.profiles.steps import is_data_wait, is_step
from telemetry_parsers.profiles.timeline import Timeline
from telemetry_parsers.profiles.words import work_of

_TOOL = "Nsight Systems"
_ACTIVITY = "CUPTI_ACTIVITY_KIND_"
_KERNEL_COLUMNS = (
    "start",
    "end",
    "deviceId",
    "demangledName",
    "shortName",
    "gridX",
    "gridY",
    "gridZ",
    "blockX",
    "blockY",
    "blockZ",
)
# CUpti_ActivityMemcpyKind; 11 to 13 are pages that unified memory moves.
_COPIES = {
    1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH", 10: "PtoP",
    11: "unified HtoD", 12: "unified DtoH", 13: "unified DtoD",
}  # fmt: skip
_VERSION = re.compile(r"_v\d+(_ptsz|_ptds)?\Z")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", re.IGNORECASE)


def _recognises(schema: Schema) -> bool:
    return "StringIds" in schema and any(
        name.startswith((_ACTIVITY, "TARGET_INFO_", "NVTX_EVENTS", "ANALYSIS_DETAILS", "OSRT_API")) for name in schema
    )


def _read(tables: Tables) -> Facts:
    begin = _session_begin(tables)
    words = _Words(tables)
    timeline = Timeline()
    _cards(tables, timeline)
    _kernels(tables, timeline, words, begin or 0)
    _copies(tables, timeline, begin or 0)
    _ranges(tables, timeline, words, begin or 0)
    for name in named(tables.schema, f"{_ACTIVITY}RUNTIME"):
        for row in records(tables, name, ("start", "end", "nameId")):
            timeline.call(_VERSION.sub("", words.of(row.get("nameId"))), _length(row))
    return Facts(
        "nsys-sqlite",
        _TOOL,
        "none" if begin is None else "unix",
        devices=timeline.devices(),
        calls=timeline.calls(),
        problems=timeline.problems(),
    )


class _Words:
    """The strings that other tables name by number."""

    def __init__(self, tables: Tables) -> None:
        self._by_number = {row.get("id"): row.get("value") for row in records(tables, "StringIds", ("id", "value"))}

    def of(self, *numbers: object) -> str:
        """The first that is there."""
        return next(
            (text for number in numbers if isinstance(text := self._by_number.get(number), str) and text), "(no name)"
        )


def _session_begin(tables: Tables) -> int | None:
    for row in records(tables, "TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",)):
        return integer(row.get("utcEpochNs"))
    return None


def _cards(tables: Tables, timeline: Timeline) -> None:
    for row in records(tables, "TARGET_INFO_GPU", ("id", "cuDevice", "name", "busLocation", "uuid")):
        # Other tables name a card by CUDA's number of it, which versions before 2021 do not tell here.
        number = integer(row.get("cuDevice"))
        number = integer(row.get("id")) if number is None else number
        if number is not None:
            timeline.card(
                number, Card(number, _text(row, "name"), _uuid(_text(row, "uuid")), _text(row, "busLocation").lower())
            )


def _uuid(printed: str) -> str:
    return f"GPU-{printed.lower()}" if _UUID.match(printed) else printed


def _kernels(tables: Tables, timeline: Timeline, words: _Words, begin: int) -> None:
    for table in (*named(tables.schema, f"{_ACTIVITY}KERNEL"), *named(tables.schema, f"{_ACTIVITY}CONCURRENT_KERNEL")):
        for row in records(tables, table, _KERNEL_COLUMNS):
            name = words.of(row.get("demangledName"), row.get("shortName"))
            grid = shape(row.get("gridX"), row.get("gridY"), row.get("gridZ"))
            block = shape(row.get("blockX"), row.get("blockY"), row.get("blockZ"))
            timeline.add(_device(row), work_of(name), _begin(row, begin), _length(row), name, grid, block)
    # A whole CUDA graph, where its nodes were not traced.
    for row in records(tables, f"{_ACTIVITY}GRAPH_TRACE", ("start", "end", "deviceId", "graphId")):
        timeline.add(
            _device(row), "compute", _begin(row, begin), _length(row), f"CUDA graph {integer(row.get('graphId'))}"
        )


def _copies(tables: Tables, timeline: Timeline, begin: int) -> None:
    for row in records(tables, f"{_ACTIVITY}MEMCPY", ("start", "end", "deviceId", "copyKind")):
        kind = _COPIES.get(integer(row.get("copyKind")) or 0, "other")
        timeline.add(_device(row), "copy", _begin(row, begin), _length(row), f"[memcpy {kind}]")
    for row in records(tables, f"{_ACTIVITY}MEMSET", ("start", "end", "deviceId")):
        timeline.add(_device(row), "copy", _begin(row, begin), _length(row), "[memset]")


def _ranges(tables: Tables, timeline: Timeline, words: _Words, begin: int) -> None:
    """Ranges that the program marked: steps, and what loads data."""
    for row in records(tables, "NVTX_EVENTS", ("start", "end", "text", "textId"), "WHERE end IS NOT NULL"):
        name = _text(row, "text") or words.of(row.get("textId"))
        if is_step(name):
            timeline.step(name, _begin(row, begin), _length(row))
        elif is_data_wait(name):
            timeline.data_wait(_begin(row, begin), _length(row))


def _device(row: Mapping[str, Any]) -> int:
    return integer(row.get("deviceId")) or 0


def _begin(row: Mapping[str, Any], begin: int) -> int | None:
    start = integer(row.get("start"))
    return None if start is None else begin + start


def _length(row: Mapping[str, Any]) -> int | None:
    start, end = integer(row.get("start")), integer(row.get("end"))
    return None if start is None or end is None else end - start


def _text(row: Mapping[str, Any], column: str) -> str:
    value = row.get(column)
    return value if isinstance(value, str) else ""


FORMAT = DatabaseFormat("nsys-sqlite", _TOOL, "tables StringIds and CUPTI_ACTIVITY_KIND_…", _recognises, _read)
