"""A parser that runs in a worker. It is described once; its `parse` never raises here."""

from __future__ import annotations

from dataclasses import dataclass

from telemetry_daemon.plugins.report import believed
from telemetry_daemon.processes.worker import Worker, WorkerError
from telemetry_parsers.codec.captures import CodecError, DescribedParser
from telemetry_parsers.codec.derived import from_plain
from telemetry_parsers.codec.wire import Describe, Parse
from telemetry_parsers.contract import Parser, SourceParser
from telemetry_parsers.model import Capture, Problem, Reason, Report


def describe(worker: Worker, target: str, seconds: float) -> DescribedParser:
    """What the parser at `target` is; WorkerError or CodecError says why it cannot be told."""
    return from_plain(DescribedParser, worker.call(Describe(target), seconds))


def isolated(parser: DescribedParser, worker: Worker, target: str, deadline_seconds: float) -> Parser:
    """The described parser, whose `parse` runs in the worker."""
    return SourceParser(
        name=parser.name,
        vendor=parser.vendor,
        gives=parser.gives,
        polls=parser.polls,
        parse=_IsolatedParse(parser, worker, target, deadline_seconds),
        metrics=parser.metrics,
        contract_version=parser.contract_version,
    )


@dataclass(frozen=True, slots=True)
class _IsolatedParse:
    """Gives the checked report of a capture; a failed report when the worker fails."""

    parser: DescribedParser
    worker: Worker
    target: str
    deadline_seconds: float

    def __call__(self, capture: Capture) -> Report:
        try:
            report = from_plain(Report, self.worker.call(Parse(self.target, capture), self.deadline_seconds))
        except WorkerError as error:
            return self._failed(error.reason or "timeout", str(error))
        except CodecError as error:
            return self._failed("internal", f"its report cannot be read: {error}")
        return believed(report, self.parser)

    def _failed(self, reason: Reason, text: str) -> Report:
        return Report(outcome="failed", reason=reason, problems=(Problem(f"plugin {self.parser.name}", text),))
