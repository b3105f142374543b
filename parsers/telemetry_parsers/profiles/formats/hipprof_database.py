"""hipprof's database (Hygon DTK): a table for each kind of event, host and process; several processes when merged.

The tables' names hold the node's address, which nobody is told.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from telemetry_parsers.profiles.columns import integer, named, records
from telemetry_parsers.profiles.contract import DatabaseFormat, Schema, Tables
from telemetry_parsers.profiles.facts import Card, Facts
from telemetry_parsers.profiles.steps import is_data_wait, is_step
from telemetry_parsers.profiles.timeline import Timeline
from telemetry_parsers.profiles.words import work_of

_TOOL = "hipprof"
_KERNELS, _COPIES, _RANGES = "HIPOPS_", "HIPCOPY_", "HIPTX_"
# hipMemcpyKind as hipprof writes it, and the words of its own JSON.
_DIRECTIONS = {0: "Memset", 4: "HostToDevice", 5: "DeviceToDevice", 6: "DeviceToHost"}
# address _ number of the process on its node _ process _ time
_SUFFIX = re.compile(r"(?P<host>.+)_\d+_\d+\Z")
_TIMES = ("BeginNs", "EndNs")


def _recognises(schema: Schema) -> bool:
    return "CONFIG" in schema and "SUMMARY" in schema


def _read(tables: Tables) -> Facts:
    ranks, names, timeline = _ranks(tables), _names(tables), Timeline()
    for table in _of(tables.schema, _KERNELS):
        for row in records(tables, table, (*_TIMES, "dev_id", "pid", "Name")):
            name = names.get((row.get("pid"), _plain(row.get("Name"))), "(no name)")
            timeline.add(
                _lane(table, _KERNELS, row, ranks, timeline),
                work_of(name),
                integer(row.get("BeginNs")),
                _length(row),
                name,
            )
    for table in _of(tables.schema, _COPIES):
        for row in records(tables, table, (*_TIMES, "dev_id", "pid", "MemoryType")):
            name = _DIRECTIONS.get(integer(row.get("MemoryType")) or 0, "Memcpy")
            timeline.add(
                _lane(table, _COPIES, row, ranks, timeline), "copy", integer(row.get("BeginNs")), _length(row), name
            )
    _host(tables, timeline, names)
    return Facts(
        "hipprof-database",
        _TOOL,
        "unix",
        devices=timeline.devices(),
        calls=timeline.calls(),
        problems=timeline.problems(),
    )


def _of(schema: Schema, prefix: str) -> list[str]:
    """The tables of one kind, of all processes."""
    return [name for name in named(schema, prefix) if _SUFFIX.match(name[len(prefix) :])]


def _ranks(tables: Tables) -> dict[object, int]:
    """The rank of each process that has one; -1 says that there is none."""
    told = ((row.get("PID"), integer(row.get("RANK_ID"))) for row in records(tables, "CONFIG", ("PID", "RANK_ID")))
    return {pid: rank for pid, rank in told if rank is not None and rank >= 0}


def _names(tables: Tables) -> dict[tuple[object, str], str]:
    """The words that other tables name by number, which each process counts anew."""
    rows = records(tables, "STR_TABLE", ("PID", "STR_ID", "STR_NAME"))
    return {(row.get("PID"), _plain(row.get("STR_ID"))): str(row.get("STR_NAME")) for row in rows}


def _lane(
    table: str, prefix: str, row: Mapping[str, Any], ranks: Mapping[object, int], timeline: Timeline
) -> tuple[object, ...]:
    """The key of the card: processes of one node share their cards, but for ranks, each of which counts its own."""
    suffix = _SUFFIX.match(table[len(prefix) :])
    host = suffix["host"] if suffix else ""
    rank, number = ranks.get(row.get("pid")), integer(row.get("dev_id")) or 0
    key = (host, rank, number)
    timeline.card(key, Card(index=number), rank)
    return key


def _host(tables: Tables, timeline: Timeline, names: Mapping[tuple[object, str], str]) -> None:
    """Ranges that the program marked; the names of HIP's functions are not in the database, only their numbers."""
    for table in _of(tables.schema, _RANGES):
        for row in records(tables, table, (*_TIMES, "pid", "Name", "args")):
            name = names.get((row.get("pid"), _plain(row.get("Name"))), _plain(row.get("Name")))
            if is_step(name):
                timeline.step(name, integer(row.get("BeginNs")), _length(row))
            elif is_data_wait(name):
                timeline.data_wait(integer(row.get("BeginNs")), _length(row))


def _length(row: Mapping[str, Any]) -> int | None:
    begin, end = integer(row.get("BeginNs")), integer(row.get("EndNs"))
    return None if begin is None or end is None else end - begin


def _plain(value: object) -> str:
    return "" if value is None else str(value)


FORMAT = DatabaseFormat("hipprof-database", _TOOL, "tables CONFIG, SUMMARY and HIPOPS_…", _recognises, _read)
