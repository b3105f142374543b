"""The parser of a tool: its polls, and what it gives, which the tables of its shapes say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import partial

from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Poll
from telemetry_parsers.reports.frame import parse
from telemetry_parsers.reports.targets import Target
from telemetry_parsers.reports.tool import Tool


def parser_of(tool: Tool, *polls: Poll, also: Iterable[str] = ()) -> SourceParser:
    """The parser of a tool; `also` are the metrics that no table names, such as a number of rows."""
    gives = dict.fromkeys((*_metrics([shape.tables for shape in tool.shapes]), *also))
    return SourceParser(tool.name, tool.vendor, tuple(gives), polls, partial(parse, tool=tool))


def _metrics(table: object) -> Iterator[str]:
    """The metrics of all targets in a table, in tables within it and in the fields of its rows."""
    if isinstance(table, Target):
        yield from (table.key,) if table.kind in ("metric", "health") else ()
    elif isinstance(table, Mapping):
        yield from _metrics([*table.values()])
    elif isinstance(table, tuple | list):
        for item in table:
            yield from _metrics(item)
    elif is_dataclass(table):
        yield from _metrics([getattr(table, field.name) for field in fields(table)])
