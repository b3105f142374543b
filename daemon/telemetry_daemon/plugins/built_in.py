"""Our own parsers as they were described when they were written: a parser's module is imported when it has its first capture to read.

So a node with one vendor's cards never loads what reads the tools of ten others: 3.5 MiB and 0.4 s. `make docs` writes the descriptions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from telemetry_daemon.processes.targets import BrokenProtocolError, in_one_line, load
from telemetry_parsers.codec.captures import DescribedParser
from telemetry_parsers.codec.derived import from_plain, to_plain
from telemetry_parsers.contract import Parser
from telemetry_parsers.model import Capture, Problem, Report

_FILE = Path(__file__).with_name("built_in.json")


def descriptions() -> Mapping[str, DescribedParser]:
    """Our parsers by name."""
    described = [from_plain(DescribedParser, plain) for plain in json.loads(_FILE.read_bytes())]
    return {parser.name: parser for parser in described}


def description(parser: Parser) -> DescribedParser:
    """What the parser says of itself, as another process would read it."""
    return from_plain(DescribedParser, to_plain(DescribedParser, parser))


def imported_when_needed(parser: DescribedParser, target: str) -> Parser:
    """The described parser, whose module is imported by its first capture."""
    return parser.parsing_with(_ImportedParse(parser, target))


class _ImportedParse:
    """Gives the report of a capture; a failed report while the parser cannot be imported, which is tried at each capture."""

    def __init__(self, parser: DescribedParser, target: str) -> None:
        self._parser = parser
        self._target = target
        self._parse: Callable[[Capture], Report] | None = None

    def __call__(self, capture: Capture) -> Report:
        if self._parse is None:
            try:
                self._parse = self._imported()
            except Exception as error:  # noqa: BLE001  # one source that cannot be imported must not end the others
                problem = Problem(f"parser {self._parser.name}", f"cannot be loaded: {in_one_line(error)}")
                return Report(outcome="failed", reason="internal", problems=(problem,))
        return self._parse(capture)

    def _imported(self) -> Callable[[Capture], Report]:
        parser: Parser = load(self._target)
        if description(parser) != self._parser:
            raise BrokenProtocolError(
                f"{self._target} is not what built_in.json says it is; `make docs` writes that anew"
            )
        return parser.parse
