"""A parser that runs in a worker: what it is, asked once, and its parse, which never raises here."""

from __future__ import annotations

from telemetry_daemon.plugin_report import believed
from telemetry_daemon.readers.worker import Worker, WorkerError
from telemetry_parsers.codec import (
    CodecError,
    DescribedParser,
    capture_to_plain,
    described_parser_from_plain,
    report_from_plain,
)
from telemetry_parsers.contract import Parser, SourceParser
from telemetry_parsers.model import Capture, Problem, Reason, Report

# A parser of the protocol reads a mebibyte in under a second; one that takes this long hangs.
PARSE_SECONDS = 5.0


def describe(worker: Worker, target: str, deadline_seconds: float) -> DescribedParser:
    """What the parser at `target` is; WorkerError or CodecError says why it cannot be told."""
    return described_parser_from_plain(worker.call("describe", {"parser": target}, deadline_seconds))


def isolated(parser: DescribedParser, worker: Worker, target: str) -> Parser:
    """The described parser, whose `parse` runs in the worker."""
    return SourceParser(
        name=parser.name,
        vendor=parser.vendor,
        gives=parser.gives,
        polls=parser.polls,
        parse=_IsolatedParse(parser, worker, target),
        metrics=parser.metrics,
        contract_version=parser.contract_version,
    )


class _IsolatedParse:
    """Captures in, believed reports out; a worker's trouble is a failed report."""

    __slots__ = ("_parser", "_target", "_worker")

    def __init__(self, parser: DescribedParser, worker: Worker, target: str) -> None:
        self._parser = parser
        self._worker = worker
        self._target = target

    def __call__(self, capture: Capture) -> Report:
        payload = {"parser": self._target, "capture": capture_to_plain(capture)}
        try:
            report = report_from_plain(self._worker.call("parse", payload, PARSE_SECONDS))
        except WorkerError as error:
            return self._failed(error.reason or "timeout", str(error))
        except CodecError as error:
            return self._failed("internal", f"its report cannot be read: {error}")
        return believed(report, self._parser)

    def _failed(self, reason: Reason, text: str) -> Report:
        return Report(outcome="failed", reason=reason, problems=(Problem(f"plugin {self._parser.name}", text),))
