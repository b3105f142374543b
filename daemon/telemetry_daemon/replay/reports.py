"""What the installed parsers make of recorded captures."""

from __future__ import annotations

from telemetry_daemon.plugins.loading import Loaded
from telemetry_daemon.simulate.source import simulated_parser
from telemetry_parsers.contract import Parser
from telemetry_parsers.model import Capture, Report


class Reports:
    """Reads captures of any source that has a parser here; simulated cards have theirs."""

    def __init__(self, loaded: Loaded) -> None:
        self._installed: dict[str, Parser] = {item.parser.name: item.parser for item in loaded.parsers}

    def parser(self, capture: Capture) -> Parser | None:
        """What reads the captures of its source; None if nothing here does."""
        return simulated_parser(capture) or self._installed.get(capture.source)

    def of(self, capture: Capture) -> Report | None:
        """The report of a capture; None if it is of a failure, of an unknown source, or its parser fails."""
        return report_of(capture, self.parser(capture))


def report_of(capture: Capture, parser: Parser | None) -> Report | None:
    """What a parser makes of a capture; None if there is no parser, the capture is of a failure, or the parser fails."""
    if parser is None or capture.failure is not None:
        return None
    try:
        return parser.parse(capture)
    except Exception:  # noqa: BLE001  # a parser's bug: what it would have told is found by its shape only
        return None
