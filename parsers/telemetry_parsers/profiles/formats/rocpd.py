"""rocprofv3's database (rocpd, the default since ROCm 7): its tables, each with the suffix of the process that was profiled.

The views that join them need functions of newer tools, and hide rows without a name. `rocpd_info_process` holds the
environment and command line of the job, `rocpd_info_node` the host: neither is asked for anything.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Sequence

from telemetry_parsers.profiles.columns import (
    Row,
    column_of,
    integer,
    length,
    named,
    quoted,
    records,
    selected,
    shape,
    text,
)
from telemetry_parsers.profiles.contract import DatabaseFormat, Schema, Tables
from telemetry_parsers.profiles.facts import Card, Facts
from telemetry_parsers.profiles.steps import is_kept
from telemetry_parsers.profiles.timeline import Timeline
from telemetry_parsers.profiles.words import work_of

_TOOL = "rocprofv3"
_DISPATCHES, _REGIONS = "rocpd_kernel_dispatch", "rocpd_region"
_GRID = ("grid_size_x", "grid_size_y", "grid_size_z")
_BLOCK = ("workgroup_size_x", "workgroup_size_y", "workgroup_size_z")
_MARKER = "roctx"


def _recognises(schema: Schema) -> bool:
    return bool(named(schema, _DISPATCHES) or named(schema, _REGIONS))


def _read(tables: Tables) -> Facts:
    timeline = Timeline()
    tables_of_events = (*named(tables.schema, _DISPATCHES), *named(tables.schema, _REGIONS))
    for suffix in dict.fromkeys(name.removeprefix(_DISPATCHES).removeprefix(_REGIONS) for name in tables_of_events):
        _Process(tables, suffix, timeline).read()
    return Facts(
        "rocpd", _TOOL, "boot", devices=timeline.devices(), calls=timeline.calls(), problems=timeline.problems()
    )


class _Process:
    """The tables of one process."""

    def __init__(self, tables: Tables, suffix: str, timeline: Timeline) -> None:
        self._tables, self._suffix, self._timeline = tables, suffix, timeline
        self._cards: dict[int | None, Hashable] = {}
        rows = self._rows("rocpd_string", ("id", "string"))
        self._strings = {row.get("id"): text(row.get("string")) for row in rows}

    def read(self) -> None:
        """Put all that it did into the timeline."""
        self._name_cards()
        symbols = {
            row.get("id"): text(row.get("display_name")) or text(row.get("kernel_name"))
            for row in self._rows("rocpd_info_kernel_symbol", ("id", "display_name", "kernel_name"))
        }
        for row in self._rows(_DISPATCHES, ("start", "end", "agent_id", "kernel_id", *_GRID, *_BLOCK)):
            name = symbols.get(row.get("kernel_id")) or "(no name)"
            grid, block = (shape(*(row.get(column) for column in columns)) for columns in (_GRID, _BLOCK))
            key = self._key(row, "agent_id")
            self._timeline.add(key, work_of(name), integer(row.get("start")), _length(row), name, grid, block)
        for row in self._rows("rocpd_memory_copy", ("start", "end", "name_id", "dst_agent_id", "src_agent_id")):
            name = self._strings.get(row.get("name_id")) or "(no name)"
            key = self._key(row, "dst_agent_id", "src_agent_id")
            self._timeline.add(key, "copy", integer(row.get("start")), _length(row), name)
        for row in self._rows(_REGIONS, ("start", "end", "name_id", "event_id")):
            name = self._range_name(row)
            if not is_kept(self._timeline, name, integer(row.get("start")), _length(row), self._suffix):
                self._timeline.call(name, _length(row))

    def _name_cards(self) -> None:
        columns = ("id", "nid", "type", "absolute_index", "type_index", "name", "product_name", "extdata")
        for row in self._rows("rocpd_info_agent", columns):
            if row.get("type") == "GPU":
                # All processes of a node give a card the same number, whichever of them it may use.
                key = self._cards[integer(row.get("id"))] = (row.get("nid"), row.get("absolute_index"))
                model = text(row.get("product_name")) or text(row.get("name"))
                card = Card(integer(row.get("type_index")), model, "", _bus_id(text(row.get("extdata"))))
                self._timeline.card(key, card, process=self._suffix)

    def _key(self, row: Row, *columns: str) -> Hashable:
        """The first of these agents that is a card; an unknown agent of this process where none is."""
        agents = [integer(row.get(column)) for column in columns]
        found = next((self._cards[agent] for agent in agents if agent in self._cards), None)
        return found or (self._suffix, agents[0])

    def _range_name(self, row: Row) -> str:
        """The name of what the host did; of a marker the user's words, which older versions keep beside its event."""
        name = self._strings.get(row.get("name_id")) or "(no name)"
        if not name.startswith(_MARKER) or integer(row.get("event_id")) is None:
            return name
        query = f"SELECT extdata FROM {quoted(f'rocpd_event{self._suffix}')} WHERE id = ?"  # noqa: S608  # a quoted name
        for (extdata,) in self._tables.rows(query, (integer(row.get("event_id")) or 0,)):
            return text(_told(text(extdata), "message")) or name
        return name

    def _rows(self, table: str, wanted: Sequence[str]) -> Iterator[Row]:
        """The rows of a table; where a version keeps times and agents in tables of their own, they are taken from there."""
        schema, whole = self._tables.schema, f"{table}{self._suffix}"
        if column_of(schema, whole, "start_id") is None:
            return records(self._tables, whole, wanted)
        found = {name: self._expression(whole, name) for name in wanted}
        return selected(self._tables, whole, {name: column for name, column in found.items() if column})

    def _expression(self, whole: str, name: str) -> str | None:
        schema = self._tables.schema
        if column := column_of(schema, whole, name):
            return f"{quoted(whole)}.{column}"
        for other, column, link in (("rocpd_timestamp", "value", f"{name}_id"), ("rocpd_track", name, "track_id")):
            place, linked = f"{other}{self._suffix}", column_of(schema, whole, link)
            if linked and column_of(schema, place, column):
                return f"(SELECT o.{quoted(column)} FROM {quoted(place)} o WHERE o.id = {quoted(whole)}.{linked})"  # noqa: S608  # quoted names
        return None


def _bus_id(extdata: str) -> str:
    """The PCI address, which the kernel's topology has as one number: bus, device and function."""
    location, domain = integer(_told(extdata, "location_id")), integer(_told(extdata, "domain")) or 0
    if location is None or not 0 < location <= 0xFFFF or not 0 <= domain <= 0xFFFF:
        return ""
    return f"{domain:04x}:{location >> 8:02x}:{location >> 3 & 0x1F:02x}.{location & 7}"


def _told(extdata: str, key: str) -> object:
    try:
        told = json.loads(extdata)
    except (ValueError, RecursionError):  # it is no JSON: nothing is told
        return None
    return told.get(key) if isinstance(told, dict) else None


def _length(row: Row) -> int | None:
    return length(row.get("start"), row.get("end"))


FORMAT = DatabaseFormat("rocpd", _TOOL, "tables rocpd_kernel_dispatch…, rocpd_region…", _recognises, _read)
