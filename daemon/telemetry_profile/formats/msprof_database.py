"""msprof's database of Ascend devices: `msprof_TIME.db`, and what the Ascend PyTorch Profiler and MindSpore's make of it.

HOST_INFO has the host's name, and the groups of COMMUNICATION_OP its address: neither is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from telemetry_profile.facts.device_timeline import Timeline
from telemetry_profile.facts.kernel_kinds import is_data_wait, work_of
from telemetry_profile.facts.sql_columns import (
    NO_NAME,
    Row,
    add_calls,
    column_of,
    columns_of,
    integer,
    interval,
    records,
    selected,
    text,
)
from telemetry_profile.format_contract import Card, DatabaseFormat, Facts, Schema, Tables

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
    for start, end, card, number in _tasks(tables, "COMPUTE_TASK_INFO", "name"):
        name = words.get(number) or NO_NAME
        timeline.add(integer(card), work_of(name), *interval(start, end), name)
    for start, end, card, kind in _copies(tables, words):
        name = f"memcpy {_COPIES.get(integer(kind), 'of another kind')}"
        timeline.add(integer(card), "copy", *interval(start, end), name)
    for start, end, card, kind, call in records(tables, "COMMUNICATION_OP", (*_TIMES, "deviceId", "opType", "opName")):
        name = words.get(kind) or _CALL_NUMBER.sub("", words.get(call, "")) or NO_NAME
        # Older versions do not tell the device: it is the only one, or it is not known.
        number = cards[0] if card is None and len(cards) == 1 else integer(card)
        timeline.add(number, "communication", *interval(start, end), name)
    _host(tables, timeline, words)
    return timeline.facts("msprof-database", _TOOL, "unix")


def _words(tables: Tables) -> dict[object, str]:
    """The strings that other tables name by number."""
    return {number: text(value) for number, value in records(tables, "STRING_IDS", ("id", "value"))}


def _name_cards(tables: Tables, timeline: Timeline) -> list[int]:
    """The numbers of the cards on which tasks ran; the timeline knows their models and ranks."""
    ranks_of_cards = records(tables, "RANK_DEVICE_MAP", ("deviceId", "rankId"))
    ranks = {
        integer(number): rank
        for number, in_job in ranks_of_cards
        if (rank := integer(in_job)) is not None and rank >= 0
    }
    models = {integer(number): text(name) for number, name in records(tables, "NPU_INFO", ("id", "name"))}
    column = column_of(tables.schema, "TASK", "deviceId")
    rows = selected(tables, "TASK", [f"DISTINCT {column}"]) if column else iter(())
    cards = [number for (card,) in rows if (number := integer(card)) is not None]
    for known in cards or models:
        timeline.card(known, Card(known, models.get(known, "")), ranks.get(known))
    return cards


def _copies(tables: Tables, words: Mapping[object, str]) -> Iterator[Row]:
    """The tasks that copy; where the calls of the runtime were not recorded, those of that type that are not a collective's."""
    if "MEMCPY_INFO" in tables.schema:
        yield from _tasks(tables, "MEMCPY_INFO", "memcpyOperation")
        return
    types = {number for number, word in words.items() if word in _COPYING}
    collectives = {task for (task,) in records(tables, "COMMUNICATION_TASK_INFO", ("globalTaskId",))}
    for start, end, card, kind, task in records(tables, "TASK", (*_TIMES, "deviceId", "taskType", "globalTaskId")):
        if kind in types and task not in collectives:
            yield start, end, card, None


def _tasks(tables: Tables, table: str, column: str) -> Iterator[Row]:
    """The tasks on the device of which a table tells: begin, end, device, and that table's column."""
    columns = ("TASK", "globalTaskId"), (table, "globalTaskId"), ("TASK", "deviceId"), (table, column)
    if not all(column_of(tables.schema, *column) for column in columns):
        return iter(())
    query = f'SELECT startNs, endNs, deviceId, i."{column}" FROM "{table}" i JOIN TASK t USING (globalTaskId)'  # noqa: S608  # names of this module
    return tables.rows(query)


def _host(tables: Tables, timeline: Timeline, words: Mapping[object, str]) -> None:
    """Steps, what the program marked, its waits for data, and calls of CANN."""
    for start, end, number in records(tables, "STEP_TIME", (*_TIMES, "id")):
        timeline.step(f"step {integer(number)}", *interval(start, end))
    if "STEP_TIME" not in tables.schema:
        for start, end, message in records(tables, "MSTX_EVENTS", (*_TIMES, "message")):
            timeline.marked(words.get(message, ""), *interval(start, end))
    waits = {number for number, word in words.items() if is_data_wait(word)}
    for start, end, name in records(tables, "PYTORCH_API", (*_TIMES, "name")):
        if name in waits:
            timeline.data_wait(*interval(start, end))
    add_calls(timeline, tables, "CANN_API", columns_of(tables.schema, "CANN_API", (*_TIMES, "name")), words)


FORMAT = DatabaseFormat("msprof-database", _TOOL, _recognises, _read)
