"""Reads databases of rocprof and rocprofv3."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Sequence

from telemetry_profile.facts.device_timeline import Timeline
from telemetry_profile.facts.kernel_kinds import is_data_wait, is_step, work_of
from telemetry_profile.facts.sql_columns import (
    NO_NAME,
    Row,
    add_calls,
    column_of,
    columns_of,
    extent,
    integer,
    quoted,
    records,
    select,
    shape,
    tables_with_prefix,
    text,
)
from telemetry_profile.format_contract import Card, DatabaseFormat, Facts, Schema, Tables, Work

_DISPATCHES, _REGIONS = "rocpd_kernel_dispatch", "rocpd_region"
_SIZE_COLUMNS = (
    "grid_size_x", "grid_size_y", "grid_size_z",
    "workgroup_size_x", "workgroup_size_y", "workgroup_size_z",
)  # fmt: skip
_AGENT_COLUMNS = ("id", "nid", "type", "absolute_index", "type_index", "product_name", "name", "extdata")
_REGION_COLUMNS = ("start", "end", "name_id")
_MARKER_PREFIX = "roctx"


def _recognises_rocpd(schema: Schema) -> bool:
    return bool(tables_with_prefix(schema, _DISPATCHES) or tables_with_prefix(schema, _REGIONS))


def _read_rocpd(tables: Tables) -> Facts:
    timeline = Timeline()
    tables_of_events = (*tables_with_prefix(tables.schema, _DISPATCHES), *tables_with_prefix(tables.schema, _REGIONS))
    for suffix in dict.fromkeys(name.removeprefix(_DISPATCHES).removeprefix(_REGIONS) for name in tables_of_events):
        _ProcessReader(tables, suffix, timeline).read()
    return timeline.facts("rocpd", "rocprofv3", "boot")


# Only tables are read, because views hide rows without a name. `rocpd_info_process` and `rocpd_info_node` are not read,
# because they contain the command line and the host.
class _ProcessReader:
    """Reads the tables of one process, whose names end in `suffix`."""

    def __init__(self, tables: Tables, suffix: str, timeline: Timeline) -> None:
        self._tables, self._suffix, self._timeline = tables, suffix, timeline
        self._strings = {string_id: text(string) for string_id, string in self._rows("rocpd_string", ("id", "string"))}
        self._cards: dict[int | None, Hashable] = {}

    def read(self) -> None:
        self._add_cards()
        self._read_kernels()
        for start, end, name_id, *agents in self._rows(
            "rocpd_memory_copy", ("start", "end", "name_id", "dst_agent_id", "src_agent_id")
        ):
            name = self._strings.get(name_id) or NO_NAME
            self._timeline.add(self._card_key(*agents), "copy", *extent(start, end), name)
        self._read_host_activity()

    def _add_cards(self) -> None:
        for agent, node, kind, number, index, product, name, extdata in self._rows("rocpd_info_agent", _AGENT_COLUMNS):
            if kind == "GPU":
                # A card has the same number in all processes of a node.
                key = self._cards[integer(agent)] = (node, number)
                card = Card(integer(index), text(product) or text(name), "", _bus_id(text(extdata)))
                self._timeline.set_card(key, card, process=self._suffix)

    def _card_key(self, *agents: object) -> Hashable:
        """Return the key of the first agent that is a card. If none is a card, return a key for an unknown card."""
        agent_ids = [integer(agent) for agent in agents]
        unknown_card = self._suffix, agent_ids[0]
        return next((self._cards[agent_id] for agent_id in agent_ids if agent_id in self._cards), unknown_card)

    def _read_kernels(self) -> None:
        symbols: dict[object, tuple[str, Work]] = {}
        for symbol_id, shown, mangled in self._rows("rocpd_info_kernel_symbol", ("id", "display_name", "kernel_name")):
            name = text(shown) or text(mangled) or NO_NAME
            symbols[symbol_id] = name, work_of(name)
        rows = self._rows(_DISPATCHES, ("start", "end", "agent_id", "kernel_id", *_SIZE_COLUMNS))
        for start, end, agent, kernel, *sizes in rows:
            name, work = symbols.get(kernel, (NO_NAME, "compute"))
            self._timeline.add(
                self._card_key(agent), work, *extent(start, end), name, shape(*sizes[:3]), shape(*sizes[3:])
            )

    def _read_host_activity(self) -> None:
        marked = {string_id: string for string_id, string in self._strings.items() if _may_be_marker(string)}
        for start, end, string_id, event in self._rows(_REGIONS, (*_REGION_COLUMNS, "event_id")):
            if string_id in marked:
                name = self._marker_text(event) if marked[string_id].startswith(_MARKER_PREFIX) else marked[string_id]
                if not self._timeline.add_range(name, *extent(start, end), self._suffix):
                    self._timeline.add_call(name or marked[string_id], extent(start, end)[1])
        table = f"{_REGIONS}{self._suffix}"
        expressions = [self._expression(table, column) for column in _REGION_COLUMNS]
        functions = {string_id: string for string_id, string in self._strings.items() if string_id not in marked}
        add_calls(self._timeline, self._tables, table, expressions, functions)

    def _marker_text(self, event: object) -> str:
        """Return the marker's text, which older versions store in the row of its event, or "" if there is none."""
        query = f"SELECT extdata FROM {quoted(f'rocpd_event{self._suffix}')} WHERE id = ?"  # noqa: S608  # a quoted name
        rows = self._tables.rows(query, (integer(event) or 0,))
        return next((text(_value_in(text(extdata), "message")) for (extdata,) in rows), "")

    def _rows(self, table: str, column_names: Sequence[str]) -> Iterator[Row]:
        full_name = f"{table}{self._suffix}"
        return select(self._tables, full_name, [self._expression(full_name, name) for name in column_names])

    def _expression(self, full_name: str, name: str) -> str | None:
        schema = self._tables.schema
        if column := column_of(schema, full_name, name):
            return f"{quoted(full_name)}.{column}"
        for other, column, link in (("rocpd_timestamp", "value", f"{name}_id"), ("rocpd_track", name, "track_id")):
            linked_table, link_column = f"{other}{self._suffix}", column_of(schema, full_name, link)
            if link_column and column_of(schema, linked_table, column):
                return f"(SELECT o.{quoted(column)} FROM {quoted(linked_table)} o WHERE o.id = {quoted(full_name)}.{link_column})"  # noqa: S608  # quoted names
        return None


def _may_be_marker(name: str) -> bool:
    """Return whether a region with this name may be a range that the program marked."""
    return name.startswith(_MARKER_PREFIX) or is_step(name) or is_data_wait(name)


def _bus_id(extdata: str) -> str:
    """Return the PCI address in the JSON about an agent, or "" if it is missing."""
    location, domain = integer(_value_in(extdata, "location_id")), integer(_value_in(extdata, "domain")) or 0
    if location is None or not 0 < location <= 0xFFFF or not 0 <= domain <= 0xFFFF:
        return ""
    return f"{domain:04x}:{location >> 8:02x}:{location >> 3 & 0x1F:02x}.{location & 7}"


def _value_in(extdata: str, key: str) -> object:
    try:
        document = json.loads(extdata)
    except (ValueError, RecursionError):  # not JSON
        return None
    return document.get(key) if isinstance(document, dict) else None


ROCPD = DatabaseFormat("rocpd", "rocprofv3", _recognises_rocpd, _read_rocpd)


_TIMES = ("BeginNs", "EndNs")
# Each row: (table, name column, card column). If the trace is missing, the table of counters is used.
_KERNEL_TABLES = (("OPS", "Name", "dev-id"), ("KERN", "KernelName", "gpu-id"))
# Barriers in a queue are ignored, because they only wait.
_BARRIER_PREFIXES = ("<barrier packet>", "Marker")


def _recognises_rocprof(schema: Schema) -> bool:
    return any(all(column_of(schema, table, column) for column in (*_TIMES, name)) for table, name, _ in _KERNEL_TABLES)


def _read_rocprof(tables: Tables) -> Facts:
    timeline = Timeline()
    cards = _add_kernels(tables, timeline)
    for start, end, name, card in records(tables, "COPY", (*_TIMES, "Name", "dev-id")):
        # HSA's copies have no device in this table. If there is only one card, the copies belong to it.
        card_number = next(iter(cards)) if card is None and len(cards) == 1 else integer(card)
        timeline.add(_add_card(timeline, card_number), "copy", *extent(start, end), _unquote(name))
    for start, end, name in records(tables, "rocTX", (*_TIMES, "Name")):
        timeline.add_range(_unquote(name), *extent(start, end))
    for table in ("HIP", "HSA"):
        add_calls(timeline, tables, table, columns_of(tables.schema, table, (*_TIMES, "Name")))
    return timeline.facts("rocprof-database", "rocprof", "boot")


def _add_kernels(tables: Tables, timeline: Timeline) -> set[int | None]:
    """Add the kernels to the timeline, and return the indices of their cards."""
    card_numbers: set[int | None] = set()
    for table, name_column, card_column in _KERNEL_TABLES:
        for start, end, stored_name, card in records(tables, table, (*_TIMES, name_column, card_column)):
            name = _unquote(stored_name)
            if not name.startswith(_BARRIER_PREFIXES):
                card_number = integer(card)
                card_numbers.add(card_number)
                timeline.add(_add_card(timeline, card_number), work_of(name), *extent(start, end), name)
        if card_numbers:
            break
    return card_numbers


def _add_card(timeline: Timeline, number: int | None) -> Hashable:
    timeline.set_card(number, Card(number))
    return number


def _unquote(stored_name: object) -> str:
    """Return a name without the quotes that some versions of rocprof store around it."""
    name = text(stored_name)
    return name[1:-1] if len(name) > 1 and name[0] == name[-1] == '"' else name or NO_NAME


ROCPROF = DatabaseFormat("rocprof-database", "rocprof", _recognises_rocprof, _read_rocprof)
