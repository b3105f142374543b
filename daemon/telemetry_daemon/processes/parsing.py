"""Describes and runs the parsers of plugins in a worker. This is the part of a worker that imports the model."""

from __future__ import annotations

from typing import Any

from telemetry_daemon.processes.targets import BrokenProtocolError, load
from telemetry_parsers.checks.declaration import shape_violations
from telemetry_parsers.codec.captures import DescribedParser
from telemetry_parsers.codec.derived import from_plain, to_plain
from telemetry_parsers.codec.worker_wire import Describe, Parse, Question
from telemetry_parsers.contract import Parser
from telemetry_parsers.model import Plain, Report


class Parsers:
    """The parsers that this worker has loaded."""

    def __init__(self) -> None:
        self._parsers: dict[str, Parser] = {}

    def perform(self, question: Plain) -> Plain:
        """Perform a serialized request, and return the serialized result."""
        request = from_plain(Question, question).ask
        if isinstance(request, Describe):
            return to_plain(DescribedParser, self._parser(request.parser))
        if isinstance(request, Parse):
            return self._parse(request)
        raise BrokenProtocolError("a parser cannot read a source")

    def _parser(self, target: str) -> Parser:
        if target not in self._parsers:
            parser: Any = load(target)
            violations = shape_violations(parser)
            if violations:
                raise BrokenProtocolError("; ".join(violations))
            self._parsers[target] = parser
        return self._parsers[target]

    def _parse(self, request: Parse) -> Plain:
        report: Any = self._parser(request.parser).parse(request.capture)
        if not isinstance(report, Report):
            raise BrokenProtocolError(f"parse returned {type(report).__name__}, not a Report")
        return to_plain(Report, report)
