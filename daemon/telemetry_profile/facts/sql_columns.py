"""Builds SQL queries for databases whose columns differ between versions of a tool."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from telemetry_profile.facts.device_timeline import Timeline
from telemetry_profile.format_contract import Schema, Tables

_INTEGER = re.compile(r"\s*-?\d{1,19}\s*\Z", re.ASCII)
_INTEGER_LIMIT = 2**63  # larger than any SQLite integer
NO_NAME = "(no name)"
Row = tuple[Any, ...]


def quoted(name: str) -> str:
    """Return a name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def tables_with_prefix(schema: Schema, prefix: str) -> list[str]:
    """Return the names of tables that begin with this prefix. Case is ignored."""
    return [name for name in schema if name.lower().startswith(prefix.lower())]


def column_of(schema: Schema, table: str, name: str) -> str | None:
    """Return the quoted name of a column, or None if the column is missing. Case is ignored."""
    return next((quoted(column) for column in schema.get(table, ()) if column.lower() == name.lower()), None)


def records(tables: Tables, table: str, column_names: Sequence[str]) -> Iterator[Row]:
    """Yield the values of these columns for each row. The value of a missing column is None."""
    return select(tables, table, columns_of(tables.schema, table, column_names))


def select(tables: Tables, table: str, expressions: Iterable[str | None], ending: str = "") -> Iterator[Row]:
    """Yield the values of these SQL expressions for each row of a table. The value of an expression None is None."""
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
    """Add the host calls in a table. `expressions` are SQL for begin, end and the name (or its key in `names`)."""
    begin, end, name = expressions
    if begin and end and name:
        where = f"WHERE typeof({begin}) = 'integer' AND typeof({end}) = 'integer' AND {end} >= {begin} GROUP BY {name}"
        for function, calls, total in select(tables, table, (name, "count(*)", f"sum({end} - {begin})"), where):
            if function_name := text(function) if names is None else names.get(function):
                timeline.add_call(function_name, integer(total), calls)


def columns_of(schema: Schema, table: str, column_names: Sequence[str]) -> list[str | None]:
    """Return the quoted names of these columns, with None for each missing column."""
    return [column_of(schema, table, name) for name in column_names]


def integer(value: object) -> int | None:
    """Return a value of any type as a whole number, or None if it is not a whole number."""
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if abs(value) < _INTEGER_LIMIT and value.is_integer() else None
    return int(value) if isinstance(value, str) and _INTEGER.match(value) else None


def text(value: object) -> str:
    """Return the value if it is a string, else ""."""
    return value if isinstance(value, str) else ""


def extent(begin: object, end: object) -> tuple[int | None, int | None]:
    """Return (begin, length), or (None, None) if a time is unknown or both are 0, which means not recorded."""
    start, stop = integer(begin), integer(end)
    return (None, None) if start is None or stop is None or start == stop == 0 else (start, stop - start)


@lru_cache(maxsize=1000)
def shape(*sizes: object) -> str:
    """Return launch dimensions such as `1×2×3`, or "" if any of them is unknown."""
    numbers = [integer(size) for size in sizes]
    return "×".join(map(str, numbers)) if numbers and None not in numbers else ""
