"""Queries that ask only for the columns that a version of a tool has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from telemetry_parsers.profiles.contract import Schema, Tables


def quoted(name: str) -> str:
    """A name as SQL wants it."""
    return '"' + name.replace('"', '""') + '"'


def named(schema: Schema, beginning: str) -> list[str]:
    """The tables whose names begin so, in any case."""
    return [name for name in schema if name.lower().startswith(beginning.lower())]


def records(tables: Tables, table: str, wanted: Sequence[str], where: str = "") -> Iterator[Mapping[str, Any]]:
    """The rows of a table as mappings; a column that it does not have is not in them."""
    by_lower = {column.lower(): column for column in tables.schema.get(table, ())}
    there = [(name, by_lower[name.lower()]) for name in wanted if name.lower() in by_lower]
    if not there:
        return
    query = f"SELECT {', '.join(quoted(column) for _, column in there)} FROM {quoted(table)} {where}"  # noqa: S608  # quoted names of the file's own schema
    names = [name for name, _ in there]
    for row in tables.rows(query):
        yield dict(zip(names, row, strict=True))


def integer(value: object) -> int | None:
    """A whole number, also one that is stored as text."""
    if isinstance(value, int):
        return value
    if isinstance(value, str) and value.strip().lstrip("-").isdecimal() and len(value) < 25:
        return int(value)
    return None


def shape(*sizes: object) -> str:
    """Three sizes of a launch as `1×2×3`, "" where they are not told."""
    numbers = [integer(size) for size in sizes]
    return "×".join(map(str, numbers)) if numbers and None not in numbers else ""
