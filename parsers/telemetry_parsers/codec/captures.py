"""The plain JSON forms of recorded captures and of parser declarations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from telemetry_parsers.codec.derived import from_plain, to_plain
from telemetry_parsers.codec.plain import CodecError, decode_line, encode_line, unexpected
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Capture, Metric, Plain, Poll, Report

__all__ = [
    "CAPTURE_SCHEMA",
    "CodecError",
    "DescribedParser",
    "capture_from_plain",
    "capture_to_plain",
    "decode_line",
    "encode_line",
]

CAPTURE_SCHEMA = "telemetry.capture/1"


@dataclass(frozen=True, slots=True)
class DescribedParser:
    """A parser that runs in another process, with all attributes of the Parser protocol except `parse`."""

    contract_version: int
    name: str
    vendor: str
    gives: tuple[str, ...]
    polls: tuple[Poll, ...]
    metrics: tuple[Metric, ...] = ()

    def with_parse(self, parse: Callable[[Capture], Report]) -> SourceParser:
        """Return a parser with this declaration and this `parse` function."""
        return SourceParser(self.name, self.vendor, self.gives, self.polls, parse, self.metrics, self.contract_version)


def capture_to_plain(capture: Capture) -> dict[str, Any]:
    """Convert a capture to plain JSON data with the schema `telemetry.capture/1`."""
    return {"schema": CAPTURE_SCHEMA, **to_plain(Capture, capture)}


def capture_line(capture: Capture) -> bytes:
    """Return a capture as an ASCII line of a recording, including the line break."""
    return encode_line(capture_to_plain(capture)).encode("ascii") + b"\n"


def capture_from_plain(plain: Plain) -> Capture:
    """Create a capture from plain JSON data. Raise CodecError for invalid data."""
    if isinstance(plain, dict):
        if plain.get("schema") != CAPTURE_SCHEMA:
            raise unexpected(CAPTURE_SCHEMA, plain.get("schema")).inside("schema")
        plain = {key: value for key, value in plain.items() if key != "schema"}
    return from_plain(Capture, plain)
