"""Reads the databases msprof_TIME.db, except the host names in them."""

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
    extent,
    integer,
    records,
    select,
    text,
)
from telemetry_profile.format_contract import Card, DatabaseFormat, Facts, Schema, Tables

_TOOL = "msprof"
_TIMES = ("startNs", "endNs")
# ENUM_MEMCPY_OPERATION in the manual of msprof.
_COPIES: dict[int | None, str] = {
    0: "host to host", 1: "host to device", 2: "device to host", 3: "device to device", 4: "managed memory",
    5: "addr device to device", 6: "host to device ex", 7: "device to host ex",
}  # fmt: skip
_COPY_TASK_TYPES = ("MEMCPY_ASYNC", "PCIE_DMA_SQE", "SDMA_SQE")  # values of TASK.taskType
_CALL_NUMBER = re.compile(r"__\d+_\d+_\d+\Z")  # matches the end of a name such as hcom_allReduce__428_0_1


def _recognises(schema: Schema) -> bool:
    return "STRING_IDS" in schema and any(name in schema for name in ("TASK", "COMMUNICATION_OP", "CANN_API"))


def _read(tables: Tables) -> Facts:
    timeline, strings = Timeline(), {key: text(value) for key, value in records(tables, "STRING_IDS", ("id", "value"))}
    cards = _set_cards(tables, timeline)
    for start, end, card, name_id in _tasks(tables, "COMPUTE_TASK_INFO", "name"):
        name = strings.get(name_id) or NO_NAME
        timeline.add(integer(card), work_of(name), *extent(start, end), name)
    for start, end, card, kind in _copies(tables, strings):
        name = f"memcpy {_COPIES.get(integer(kind), 'of another kind')}"
        timeline.add(integer(card), "copy", *extent(start, end), name)
    for start, end, card, kind, call in records(tables, "COMMUNICATION_OP", (*_TIMES, "deviceId", "opType", "opName")):
        name = strings.get(kind) or _CALL_NUMBER.sub("", strings.get(call, "")) or NO_NAME
        # Older versions do not store the card of a collective. If there is only one card, the collective belongs to it.
        card_number = cards[0] if card is None and len(cards) == 1 else integer(card)
        timeline.add(card_number, "communication", *extent(start, end), name)
    _add_host_activity(tables, timeline, strings)
    return timeline.facts("msprof-database", _TOOL, "unix")


def _set_cards(tables: Tables, timeline: Timeline) -> list[int]:
    """Add the cards to the timeline, and return the numbers of the cards that ran tasks."""
    ranks_of_cards = records(tables, "RANK_DEVICE_MAP", ("deviceId", "rankId"))
    ranks = {
        integer(card_number): rank
        for card_number, rank_id in ranks_of_cards
        if (rank := integer(rank_id)) is not None and rank >= 0
    }
    models = {integer(card_number): text(name) for card_number, name in records(tables, "NPU_INFO", ("id", "name"))}
    column = column_of(tables.schema, "TASK", "deviceId")
    rows = select(tables, "TASK", [f"DISTINCT {column}"]) if column else iter(())
    cards = [index for (card,) in rows if (index := integer(card)) is not None]
    for card_number in cards or models:
        timeline.set_card(card_number, Card(card_number, models.get(card_number, "")), ranks.get(card_number))
    return cards


def _copies(tables: Tables, strings: Mapping[object, str]) -> Iterator[Row]:
    """Yield (start, end, device, kind) for each copy. If MEMCPY_INFO is missing, find copies by task type."""
    if "MEMCPY_INFO" in tables.schema:
        yield from _tasks(tables, "MEMCPY_INFO", "memcpyOperation")
        return
    copy_types = {number for number, string in strings.items() if string in _COPY_TASK_TYPES}
    collectives = {task for (task,) in records(tables, "COMMUNICATION_TASK_INFO", ("globalTaskId",))}
    for start, end, card, kind, task in records(tables, "TASK", (*_TIMES, "deviceId", "taskType", "globalTaskId")):
        if kind in copy_types and task not in collectives:
            yield start, end, card, None


def _tasks(tables: Tables, table: str, column: str) -> Iterator[Row]:
    """Yield (start, end, device, value of `column`) for each task in the table."""
    needed = ("TASK", "globalTaskId"), (table, "globalTaskId"), ("TASK", "deviceId"), (table, column)
    if not all(column_of(tables.schema, table_name, name) for table_name, name in needed):
        return iter(())
    query = f'SELECT startNs, endNs, deviceId, i."{column}" FROM "{table}" i JOIN TASK t USING (globalTaskId)'  # noqa: S608  # names of this module
    return tables.rows(query)


def _add_host_activity(tables: Tables, timeline: Timeline, strings: Mapping[object, str]) -> None:
    for start, end, step_id in records(tables, "STEP_TIME", (*_TIMES, "id")):
        timeline.add_step(f"step {integer(step_id)}", *extent(start, end))
    if "STEP_TIME" not in tables.schema:
        for start, end, message in records(tables, "MSTX_EVENTS", (*_TIMES, "message")):
            timeline.add_range(strings.get(message, ""), *extent(start, end))
    waits = {number for number, string in strings.items() if is_data_wait(string)}
    for start, end, name in records(tables, "PYTORCH_API", (*_TIMES, "name")):
        if name in waits:
            timeline.add_data_wait(*extent(start, end))
    add_calls(timeline, tables, "CANN_API", columns_of(tables.schema, "CANN_API", (*_TIMES, "name")), strings)


FORMAT = DatabaseFormat("msprof-database", _TOOL, _recognises, _read)
