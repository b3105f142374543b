"""The parser of a tool: its polls, and the metrics that it gives, which stand in the tables of its shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import partial

from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Capture, Poll, Reading, Report
from telemetry_parsers.reports.frame import parse
from telemetry_parsers.reports.targets import Target
from telemetry_parsers.reports.tool import Tool


def parser_of(
    tool: Tool, *polls: Poll, also: Iterable[str] = (), keeps: Callable[[str, Reading], bool] | None = None
) -> SourceParser:
    """The parser of a tool; its source is named after it, `hccn-tool` after hccn_tool.

    `also` are the metrics that no table names, such as a number of rows. `keeps` says whether a poll of this name gives
    this reading, for polls whose text has readings that another poll gives more often.
    """
    gives = dict.fromkeys((*_metrics([shape.tables for shape in tool.shapes]), *also))
    read = partial(parse, tool=tool) if keeps is None else partial(_parse_kept, tool=tool, keeps=keeps)
    return SourceParser(tool.name.replace("_", "-"), tool.vendor, tuple(gives), polls, read)


def _parse_kept(capture: Capture, tool: Tool, keeps: Callable[[str, Reading], bool]) -> Report:
    report = parse(capture, tool)
    return replace(report, readings=tuple(item for item in report.readings if keeps(capture.poll, item)))


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
