"""Queries that ask only for the columns that a version of a tool has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from telemetry_parsers.profiles.contract import Schema, Tables

_INTEGER = re.compile(r"\s*-?\d{1,19}\s*\Z", re.ASCII)
_MOST = 2**63  # what sqlite stores
Row = Mapping[str, Any]


def quoted(name: str) -> str:
    """A name as SQL wants it."""
    return '"' + name.replace('"', '""') + '"'


def named(schema: Schema, beginning: str) -> list[str]:
    """The tables whose names begin so, in any case."""
    return [name for name in schema if name.lower().startswith(beginning.lower())]


def column_of(schema: Schema, table: str, name: str) -> str | None:
    """The column of this name, in any case, as SQL wants it; None where the table does not have it."""
    return next((quoted(column) for column in schema.get(table, ()) if column.lower() == name.lower()), None)


def records(tables: Tables, table: str, wanted: Sequence[str]) -> Iterator[Row]:
    """The rows of a table as mappings; a column that it does not have is not in them."""
    there = {name: column for name in wanted if (column := column_of(tables.schema, table, name))}
    return selected(tables, table, there)


def selected(tables: Tables, table: str, expressions: Mapping[str, str]) -> Iterator[Row]:
    """The rows of a table as mappings of these SQL expressions."""
    if expressions:
        query = f"SELECT {', '.join(expressions.values())} FROM {quoted(table)}"  # noqa: S608  # quoted names of the file's own schema
        names = tuple(expressions)
        for row in tables.rows(query):
            yield dict(zip(names, row, strict=True))


def integer(value: object) -> int | None:
    """A whole number, also one that is stored as text or as a floating-point number."""
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if abs(value) < _MOST and value.is_integer() else None
    return int(value) if isinstance(value, str) and _INTEGER.match(value) else None


def text(value: object) -> str:
    """A text; "" where it is none."""
    return value if isinstance(value, str) else ""


def length(begin: object, end: object) -> int | None:
    """How long something took; None where one of its times is not known, or both are 0, as of what was never recorded."""
    begins, ends = integer(begin), integer(end)
    return None if begins is None or ends is None or begins == ends == 0 else ends - begins


def shape(*sizes: object) -> str:
    """Three sizes of a launch as `1×2×3`, "" where they are not told."""
    numbers = [integer(size) for size in sizes]
    return "×".join(map(str, numbers)) if numbers and None not in numbers else ""
