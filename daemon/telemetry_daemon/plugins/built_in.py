"""The built-in parsers, as described in the generated built_in.json. Parsers are imported at their first capture, which saves 3.5 MiB."""

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
    """Return the built-in parsers by name."""
    described = [from_plain(DescribedParser, plain) for plain in json.loads(_FILE.read_bytes())]
    return {parser.name: parser for parser in described}


def description(parser: Parser) -> DescribedParser:
    """Return the parser's own description in the form that another process would read."""
    return from_plain(DescribedParser, to_plain(DescribedParser, parser))


def imported_when_needed(parser: DescribedParser, target: str) -> Parser:
    """Return the described parser, which imports its module for its first capture."""
    return parser.parsing_with(_ImportedParse(parser, target))


class _ImportedParse:
    """Returns the report of a capture, or a failed report if the parser cannot be imported. Each capture tries the import again."""

    def __init__(self, parser: DescribedParser, target: str) -> None:
        self._parser = parser
        self._target = target
        self._parse: Callable[[Capture], Report] | None = None

    def __call__(self, capture: Capture) -> Report:
        if self._parse is None:
            try:
                self._parse = self._imported()
            except Exception as error:  # noqa: BLE001 # a source that cannot be imported must not end the others
                problem = Problem(f"parser {self._parser.name}", f"cannot be loaded: {in_one_line(error)}")
                return Report(outcome="failed", reason="internal", problems=(problem,))
        return self._parse(capture)

    def _imported(self) -> Callable[[Capture], Report]:
        parser: Parser = load(self._target)
        if description(parser) != self._parser:
            raise BrokenProtocolError(
                f"{self._target} does not match built_in.json; run `make docs` to update that file"
            )
        return parser.parse
