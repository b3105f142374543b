"""msprof's database of Ascend devices: `msprof_TIME.db`, and what the Ascend PyTorch Profiler and MindSpore's make of it.

HOST_INFO has the host's name, and the groups of COMMUNICATION_OP its address: neither is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from telemetry_parsers.profiles.columns import Row, integer, length, records, selected, text
from telemetry_parsers.profiles.contract import DatabaseFormat, Schema, Tables
from telemetry_parsers.profiles.facts import Card, Facts
from telemetry_parsers.profiles.steps import is_data_wait, is_kept
from telemetry_parsers.profiles.timeline import Timeline
from telemetry_parsers.profiles.words import work_of

_TOOL = "msprof"
_TIMES = ("startNs", "endNs")
# ENUM_MEMCPY_OPERATION of the tool's manual.
_COPIES: dict[int | None, str] = {
    0: "host to host", 1: "host to device", 2: "device to host", 3: "device to device", 4: "managed memory",
    5: "addr device to device", 6: "host to device ex", 7: "device to host ex",
}  # fmt: skip
_COPYING = ("MEMCPY_ASYNC", "PCIE_DMA_SQE", "SDMA_SQE")  # of TASK.taskType
_CALL_NUMBER = re.compile(r"__\d+_\d+_\d+\Z")  # of hcom_allReduce__428_0_1: which call it was


def _recognises(schema: Schema) -> bool:
    return "STRING_IDS" in schema and any(name in schema for name in ("TASK", "COMMUNICATION_OP", "CANN_API"))


def _read(tables: Tables) -> Facts:
    timeline, words = Timeline(), _words(tables)
    cards = _name_cards(tables, timeline)
    for row in _tasks(tables, "COMPUTE_TASK_INFO", "name"):
        name = words.get(row["info"]) or "(no name)"
        timeline.add(integer(row["card"]), work_of(name), integer(row["begin"]), _length(row, "begin", "end"), name)
    for row in _copies(tables, words):
        name = f"memcpy {_COPIES.get(integer(row['info']), 'of another kind')}"
        timeline.add(integer(row["card"]), "copy", integer(row["begin"]), _length(row, "begin", "end"), name)
    for row in records(tables, "COMMUNICATION_OP", (*_TIMES, "opName", "opType", "deviceId")):
        name = words.get(row.get("opType")) or _CALL_NUMBER.sub("", words.get(row.get("opName"), "")) or "(no name)"
        # Older versions do not tell the device: it is the only one, or it is not known.
        card = integer(row.get("deviceId")) if "deviceId" in row else cards[0] if len(cards) == 1 else None
        timeline.add(card, "communication", integer(row.get("startNs")), _length(row, *_TIMES), name)
    _host(tables, timeline, words)
    return Facts(
        "msprof-database",
        _TOOL,
        "unix",
        devices=timeline.devices(),
        calls=timeline.calls(),
        problems=timeline.problems(),
    )


def _words(tables: Tables) -> dict[object, str]:
    """The strings that other tables name by number."""
    return {row.get("id"): text(row.get("value")) for row in records(tables, "STRING_IDS", ("id", "value"))}


def _name_cards(tables: Tables, timeline: Timeline) -> list[int]:
    """The numbers of the cards on which tasks ran; the timeline knows their models and ranks."""
    ranks = {
        integer(row.get("deviceId")): integer(row.get("rankId"))
        for row in records(tables, "RANK_DEVICE_MAP", ("rankId", "deviceId"))
    }
    models = {integer(row.get("id")): text(row.get("name")) for row in records(tables, "NPU_INFO", ("id", "name"))}
    rows = selected(tables, "TASK", {"card": "DISTINCT deviceId"}) if "TASK" in tables.schema else iter(())
    cards = [number for row in rows if (number := integer(row["card"])) is not None]
    for number in cards or models:
        rank = ranks.get(number)
        timeline.card(number, Card(number, models.get(number, "")), rank if rank is not None and rank >= 0 else None)
    return cards


def _copies(tables: Tables, words: dict[object, str]) -> Iterator[Row]:
    """The tasks that copy; where the calls of the runtime were not recorded, those of that type that are not a collective's."""
    if "MEMCPY_INFO" in tables.schema:
        yield from _tasks(tables, "MEMCPY_INFO", "memcpyOperation")
        return
    types = {number for number, word in words.items() if word in _COPYING}
    collectives = {row.get("globalTaskId") for row in records(tables, "COMMUNICATION_TASK_INFO", ("globalTaskId",))}
    for row in records(tables, "TASK", (*_TIMES, "deviceId", "taskType", "globalTaskId")):
        if row.get("taskType") in types and row.get("globalTaskId") not in collectives:
            yield {"begin": row.get("startNs"), "end": row.get("endNs"), "card": row.get("deviceId"), "info": None}


def _tasks(tables: Tables, table: str, column: str) -> Iterator[Row]:
    """The tasks on the device of which a table tells, each with that table's column."""
    if table in tables.schema and "TASK" in tables.schema:
        query = f'SELECT t.startNs, t.endNs, t.deviceId, i."{column}" FROM "{table}" i JOIN TASK t USING (globalTaskId)'  # noqa: S608  # names of this module
        for begin, end, card, info in tables.rows(query):
            yield {"begin": begin, "end": end, "card": card, "info": info}


def _host(tables: Tables, timeline: Timeline, words: dict[object, str]) -> None:
    """Steps, what the program marked, its waits for data, and calls of CANN."""
    for row in records(tables, "STEP_TIME", (*_TIMES, "id")):
        timeline.step(f"step {integer(row.get('id'))}", integer(row.get("startNs")), _length(row, *_TIMES))
    if "STEP_TIME" not in tables.schema:
        for row in records(tables, "MSTX_EVENTS", (*_TIMES, "message")):
            is_kept(timeline, words.get(row.get("message"), ""), integer(row.get("startNs")), _length(row, *_TIMES))
    waits = {number for number, word in words.items() if is_data_wait(word)}
    for row in records(tables, "PYTORCH_API", (*_TIMES, "name")):
        if row.get("name") in waits:
            timeline.data_wait(integer(row.get("startNs")), _length(row, *_TIMES))
    for row in records(tables, "CANN_API", (*_TIMES, "name")):
        timeline.call(words.get(row.get("name")) or "(no name)", _length(row, *_TIMES))


def _length(row: Row, begin: str, end: str) -> int | None:
    return length(row.get(begin), row.get(end))


FORMAT = DatabaseFormat("msprof-database", _TOOL, "tables STRING_IDS and TASK", _recognises, _read)
