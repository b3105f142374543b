"""The interface of a plugin's parser, and how a worker runs it: the part of a worker that needs the model."""

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
    """The parsers that this worker has loaded, by target."""

    def __init__(self) -> None:
        self._parsers: dict[str, Parser] = {}

    def perform(self, question: Plain) -> Plain:
        """Return the result of one question in plain form."""
        what = from_plain(Question, question).ask
        if isinstance(what, Describe):
            return to_plain(DescribedParser, self._parser(what.parser))
        if isinstance(what, Parse):
            return self._parse(what)
        raise BrokenProtocolError("a parser reads nothing")

    def _parser(self, target: str) -> Parser:
        if target not in self._parsers:
            parser: Any = load(target)
            violations = shape_violations(parser)
            if violations:
                raise BrokenProtocolError("; ".join(violations))
            self._parsers[target] = parser
        return self._parsers[target]

    def _parse(self, what: Parse) -> Plain:
        report: Any = self._parser(what.parser).parse(what.capture)
        if not isinstance(report, Report):
            raise BrokenProtocolError(f"parse returned {type(report).__name__}, not a Report")
        return to_plain(Report, report)
