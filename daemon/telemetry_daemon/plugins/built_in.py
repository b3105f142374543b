"""The built-in parsers, each imported at its first capture to save memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from telemetry_daemon.processes.targets import PluginProtocolError, describe_error, load_target
from telemetry_parsers.codec.captures import DescribedParser
from telemetry_parsers.codec.derived import from_plain, to_plain
from telemetry_parsers.contract import Parser
from telemetry_parsers.model import Capture, Problem, Report

_DESCRIPTIONS_FILE = Path(__file__).with_name("built_in.json")


def read_descriptions() -> Mapping[str, DescribedParser]:
    """Map the name of each built-in parser to its description."""
    parsers = [from_plain(DescribedParser, parser_data) for parser_data in json.loads(_DESCRIPTIONS_FILE.read_bytes())]
    return {parser.name: parser for parser in parsers}


def describe(parser: Parser) -> DescribedParser:
    """Return a loaded parser's description in the form that built_in.json stores."""
    return from_plain(DescribedParser, to_plain(DescribedParser, parser))


def lazy_parser(parser: DescribedParser, target: str) -> Parser:
    """Return a parser that imports the target on its first capture."""
    return parser.with_parse(_LazyParse(parser, target))


class _LazyParse:
    def __init__(self, parser: DescribedParser, target: str) -> None:
        self._parser = parser
        self._target = target
        self._parse: Callable[[Capture], Report] | None = None

    def __call__(self, capture: Capture) -> Report:
        if self._parse is None:
            try:
                self._parse = self._import_parse()
            except Exception as error:  # noqa: BLE001 # a parser that cannot be imported must not affect other sources
                problem = Problem(f"parser {self._parser.name}", f"cannot be loaded: {describe_error(error)}")
                return Report(outcome="failed", reason="internal", problems=(problem,))
        return self._parse(capture)

    def _import_parse(self) -> Callable[[Capture], Report]:
        parser: Parser = load_target(self._target)
        if describe(parser) != self._parser:
            raise PluginProtocolError(
                f"{self._target} does not match built_in.json; run `make docs` to update that file"
            )
        return parser.parse
