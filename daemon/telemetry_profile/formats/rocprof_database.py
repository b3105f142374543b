"""rocprof's database (version 1, ROCm 4 to 6): results.db, from which it makes its csv files and its trace."""

from __future__ import annotations

from collections.abc import Hashable

from telemetry_profile.contract import DatabaseFormat, Schema, Tables
from telemetry_profile.facts.file_facts import Card, Facts
from telemetry_profile.facts.kernel_kinds import work_of
from telemetry_profile.facts.sql_columns import (
    NO_NAME,
    add_calls,
    column_of,
    columns_of,
    integer,
    interval,
    records,
    text,
)
from telemetry_profile.facts.timeline import Timeline

_TOOL = "rocprof"
_TIMES = ("BeginNs", "EndNs")
# What tells of kernels, first the trace, then the counters: the table, and its columns for the name and the card.
_OF_KERNELS = (("OPS", "Name", "dev-id"), ("KERN", "KernelName", "gpu-id"))
# A barrier in a queue is no work: it waits.
_BARRIERS = ("<barrier packet>", "Marker")


def _recognises(schema: Schema) -> bool:
    return any(all(column_of(schema, table, column) for column in (*_TIMES, name)) for table, name, _ in _OF_KERNELS)


def _read(tables: Tables) -> Facts:
    timeline = Timeline()
    cards = _kernels(tables, timeline)
    for start, end, name, card in records(tables, "COPY", (*_TIMES, "Name", "dev-id")):
        # What HSA copies is told without its device.
        number = next(iter(cards)) if card is None and len(cards) == 1 else integer(card)
        timeline.add(_known(timeline, number), "copy", *interval(start, end), _plain(name))
    for start, end, name in records(tables, "rocTX", (*_TIMES, "Name")):
        timeline.marked(_plain(name), *interval(start, end))
    for table in ("HIP", "HSA"):
        add_calls(timeline, tables, table, columns_of(tables.schema, table, (*_TIMES, "Name")))
    return timeline.facts("rocprof-database", _TOOL, "boot")


def _kernels(tables: Tables, timeline: Timeline) -> set[int | None]:
    """The cards on which kernels ran."""
    cards: set[int | None] = set()
    for table, name_column, card_column in _OF_KERNELS:
        for start, end, told, card in records(tables, table, (*_TIMES, name_column, card_column)):
            name = _plain(told)
            if not name.startswith(_BARRIERS):
                number = integer(card)
                cards.add(number)
                timeline.add(_known(timeline, number), work_of(name), *interval(start, end), name)
        if cards:
            break
    return cards


def _known(timeline: Timeline, number: int | None) -> Hashable:
    timeline.card(number, Card(number))
    return number


def _plain(told: object) -> str:
    """A name without the quotes in which some versions store it."""
    name = text(told)
    return name[1:-1] if len(name) > 1 and name[0] == name[-1] == '"' else name or NO_NAME


FORMAT = DatabaseFormat("rocprof-database", _TOOL, _recognises, _read)
