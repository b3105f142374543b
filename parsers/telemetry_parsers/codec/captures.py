"""The plain JSON forms of what is recorded or sent to another process: captures, reports and parsers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from telemetry_parsers.codec.derived import from_plain, to_plain
from telemetry_parsers.codec.plain import CodecError, decode_line, encode_line, unexpected
from telemetry_parsers.contract import Parser
from telemetry_parsers.model import Capture, Metric, Plain, Poll, Report

__all__ = [
    "CAPTURE_SCHEMA",
    "CodecError",
    "DescribedParser",
    "capture_from_plain",
    "capture_to_plain",
    "decode_line",
    "described_parser_from_plain",
    "encode_line",
    "parser_to_plain",
    "report_from_plain",
    "report_to_plain",
]

CAPTURE_SCHEMA = "telemetry.capture/1"


@dataclass(frozen=True, slots=True)
class DescribedParser:
    """A parser in another process: all of the Parser protocol but `parse`."""

    contract_version: int
    name: str
    vendor: str
    gives: tuple[str, ...]
    polls: tuple[Poll, ...]
    metrics: tuple[Metric, ...] = ()


def capture_to_plain(capture: Capture) -> dict[str, Any]:
    """A capture as it is recorded, `telemetry.capture/1`."""
    return {"schema": CAPTURE_SCHEMA, **to_plain(Capture, capture)}


def capture_from_plain(plain: Plain) -> Capture:
    """The capture of a recording; a CodecError names what is wrong with it."""
    if isinstance(plain, dict):
        if plain.get("schema") != CAPTURE_SCHEMA:
            raise unexpected(CAPTURE_SCHEMA, plain.get("schema")).inside("schema")
        plain = {key: value for key, value in plain.items() if key != "schema"}
    return from_plain(Capture, plain)


def report_to_plain(report: Report) -> dict[str, Any]:
    """A report; a value is a number or {"absent": reason}."""
    return to_plain(Report, report)


def report_from_plain(plain: Plain) -> Report:
    """A report, its types and closed sets checked; whether its positions and metrics exist is not looked at."""
    return from_plain(Report, plain)


def parser_to_plain(parser: Parser | DescribedParser) -> dict[str, Any]:
    """All of a parser but its function."""
    return to_plain(DescribedParser, parser)


def described_parser_from_plain(plain: Plain) -> DescribedParser:
    """All of a parser but its function."""
    return from_plain(DescribedParser, plain)
