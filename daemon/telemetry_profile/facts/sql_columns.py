"""Queries of the columns that exist in a version of a tool."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from telemetry_profile.facts.device_timeline import Timeline
from telemetry_profile.format_contract import Schema, Tables

_INTEGER = re.compile(r"\s*-?\d{1,19}\s*\Z", re.ASCII)
_MOST = 2**63  # what sqlite stores
NO_NAME = "(no name)"
Row = tuple[Any, ...]


def quoted(name: str) -> str:
    """Return a quoted name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def named(schema: Schema, beginning: str) -> list[str]:
    """Return the tables whose names have this beginning, in any case."""
    return [name for name in schema if name.lower().startswith(beginning.lower())]


def column_of(schema: Schema, table: str, name: str) -> str | None:
    """Return the quoted column of this name, in any case; None if the table does not have it."""
    return next((quoted(column) for column in schema.get(table, ()) if column.lower() == name.lower()), None)


def records(tables: Tables, table: str, wanted: Sequence[str]) -> Iterator[Row]:
    """Return the wanted columns of a table's rows, None for missing columns; nothing if the table is missing."""
    return selected(tables, table, columns_of(tables.schema, table, wanted))


def selected(tables: Tables, table: str, expressions: Iterable[str | None], ending: str = "") -> Iterator[Row]:
    """Return the values of SQL expressions for a table's rows; nothing if the table is missing."""
    if table not in tables.schema:
        return iter(())
    columns = ", ".join(expression or "NULL" for expression in expressions)
    return tables.rows(f"SELECT {columns} FROM {quoted(table)} {ending}")  # noqa: S608  # quoted names of the file's own schema


def add_calls(
    timeline: Timeline,
    tables: Tables,
    table: str,
    expressions: Sequence[str | None],
    names: Mapping[object, str] | None = None,
) -> None:
    """Add the sums of a table's calls to the timeline, from its begin, end and name, which may be a number."""
    begin, end, name = expressions
    if begin and end and name:
        valid = f"WHERE typeof({begin}) = 'integer' AND typeof({end}) = 'integer' AND {end} >= {begin} GROUP BY {name}"
        for function, calls, total in selected(tables, table, (name, "count(*)", f"sum({end} - {begin})"), valid):
            if words := text(function) if names is None else names.get(function):
                timeline.call(words, integer(total), calls)


def columns_of(schema: Schema, table: str, wanted: Sequence[str]) -> list[str | None]:
    """Return the quoted columns of these names, None for those that the table does not have."""
    return [column_of(schema, table, name) for name in wanted]


def integer(value: object) -> int | None:
    """Return a whole number, which may be stored as text or as a floating-point number; None for another value."""
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if abs(value) < _MOST and value.is_integer() else None
    return int(value) if isinstance(value, str) and _INTEGER.match(value) else None


def text(value: object) -> str:
    """Return a text; "" for another value."""
    return value if isinstance(value, str) else ""


def interval(begin: object, end: object) -> tuple[int | None, int | None]:
    """Return begin and length; None if they are unknown or both times are 0, which means that they were not recorded."""
    begins, ends = integer(begin), integer(end)
    return (None, None) if begins is None or ends is None or begins == ends == 0 else (begins, ends - begins)


@lru_cache(maxsize=1000)
def shape(*sizes: object) -> str:
    """Return the sizes of a launch as `1×2×3`, "" if any is unknown."""
    numbers = [integer(size) for size in sizes]
    return "×".join(map(str, numbers)) if numbers and None not in numbers else ""
