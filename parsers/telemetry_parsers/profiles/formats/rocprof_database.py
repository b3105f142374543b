"""rocprof's database (version 1, ROCm 4 to 6): results.db, from which it makes its csv files and its trace."""

from __future__ import annotations

from collections.abc import Hashable

from telemetry_parsers.profiles.columns import Row, column_of, integer, length, records, text
from telemetry_parsers.profiles.contract import DatabaseFormat, Schema, Tables
from telemetry_parsers.profiles.facts import Card, Facts
from telemetry_parsers.profiles.steps import is_kept
from telemetry_parsers.profiles.timeline import Timeline
from telemetry_parsers.profiles.words import work_of

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
    for row in records(tables, "COPY", (*_TIMES, "Name", "dev-id")):
        # What HSA copies is told without its device.
        number = integer(row.get("dev-id"))
        key = next(iter(cards)) if number is None and len(cards) == 1 else number
        timeline.add(_known(timeline, key), "copy", integer(row.get("BeginNs")), _length(row), _name(row, "Name"))
    for row in records(tables, "rocTX", (*_TIMES, "Name", "pid")):
        is_kept(timeline, _name(row, "Name"), integer(row.get("BeginNs")), _length(row))
    for table in ("HIP", "HSA"):
        for row in records(tables, table, (*_TIMES, "Name")):
            timeline.call(_name(row, "Name"), _length(row))
    return Facts(
        "rocprof-database",
        _TOOL,
        "boot",
        devices=timeline.devices(),
        calls=timeline.calls(),
        problems=timeline.problems(),
    )


def _kernels(tables: Tables, timeline: Timeline) -> set[int | None]:
    """The cards on which kernels ran."""
    cards: set[int | None] = set()
    for table, name_column, card_column in _OF_KERNELS:
        for row in records(tables, table, (*_TIMES, name_column, card_column)):
            name = _name(row, name_column)
            if not name.startswith(_BARRIERS):
                number = integer(row.get(card_column))
                cards.add(number)
                key = _known(timeline, number)
                timeline.add(key, work_of(name), integer(row.get("BeginNs")), _length(row), name)
        if cards:
            break
    return cards


def _known(timeline: Timeline, number: int | None) -> Hashable:
    timeline.card(number, Card(number))
    return number


def _name(row: Row, column: str) -> str:
    """A name without the quotes in which some versions store it."""
    name = text(row.get(column))
    return name[1:-1] if len(name) > 1 and name[0] == name[-1] == '"' else name or "(no name)"


def _length(row: Row) -> int | None:
    return length(row.get("BeginNs"), row.get("EndNs"))


FORMAT = DatabaseFormat("rocprof-database", _TOOL, "tables OPS or KERN", _recognises, _read)
