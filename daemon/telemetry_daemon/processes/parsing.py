"""Describes and runs the parsers of plugins in a worker."""

from __future__ import annotations

from typing import Any

from telemetry_daemon.processes.targets import PluginProtocolError, load_target
from telemetry_parsers.checks.declaration import shape_violations
from telemetry_parsers.codec.captures import DescribedParser
from telemetry_parsers.codec.derived import from_plain, to_plain
from telemetry_parsers.codec.worker_wire import Describe, Parse, Question
from telemetry_parsers.contract import Parser
from telemetry_parsers.model import Plain, Report


class ParserRunner:
    """Loads, describes and runs parsers on request."""

    def __init__(self) -> None:
        self._parsers_by_target: dict[str, Parser] = {}

    def perform(self, serialized_request: Plain) -> Plain:
        """Perform a serialized request, and return the serialized result."""
        request = from_plain(Question, serialized_request).ask
        if isinstance(request, Describe):
            return to_plain(DescribedParser, self._load_parser(request.parser))
        if isinstance(request, Parse):
            return self._parse(request)
        raise PluginProtocolError("this worker accepts only requests to describe or run a parser")

    def _load_parser(self, target: str) -> Parser:
        if target not in self._parsers_by_target:
            parser: Any = load_target(target)
            violations = shape_violations(parser)
            if violations:
                raise PluginProtocolError("; ".join(violations))
            self._parsers_by_target[target] = parser
        return self._parsers_by_target[target]

    def _parse(self, request: Parse) -> Plain:
        report: Any = self._load_parser(request.parser).parse(request.capture)
        if not isinstance(report, Report):
            raise PluginProtocolError(f"parse returned {type(report).__name__}, not a Report")
        return to_plain(Report, report)
