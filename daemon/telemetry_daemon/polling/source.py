"""One source: runs polls with its readers, and parses their output."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping

from telemetry_daemon.config.settings import SourceSettings
from telemetry_daemon.polling import poll_intervals
from telemetry_daemon.polling.pci_bus import PciView, unlisted_devices_problem
from telemetry_daemon.processes.targets import describe_error
from telemetry_daemon.readers.base import Reader, Targets
from telemetry_daemon.readers.in_worker import WorkerReader
from telemetry_daemon.readers.tool_reader import CommandReader
from telemetry_daemon.state.health import PollResult, result_of
from telemetry_daemon.terminal.log import ChangeLog
from telemetry_daemon.times import Clock
from telemetry_parsers.contract import Parser
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.model import Capture, Command, Failure, Poll, Report

log = logging.getLogger(__name__)

# Receives a reader's capture and the parsed report.
OnCapture = Callable[[Capture, "Report | None"], None]


@dataclass(frozen=True, slots=True)
class PollOutcome:
    """The result of a poll. After a failure, the report is None."""

    capture: Capture
    report: Report | None
    result: PollResult


class Source:
    """A parser with its readers and settings."""

    def __init__(
        self,
        parser: Parser,
        readers: Mapping[str, Reader],
        settings: SourceSettings,
        get_pci_view: Callable[[str], PciView],
        clock: Clock,
        on_capture: OnCapture,
        worker_cpu_seconds: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.parser = parser
        self.settings = settings
        self._readers = readers
        self._get_pci_view = get_pci_view
        self._clock = clock
        self._on_capture = on_capture
        self._worker_cpu_seconds = worker_cpu_seconds
        self._changes = ChangeLog()

    @property
    def name(self) -> str:
        """Return the source's name."""
        return self.parser.name

    def run_poll(self, poll: Poll, targets: Targets, limit_seconds: float = math.inf) -> PollOutcome:
        """Run a poll within its deadline or `limit_seconds`, whichever is shorter."""
        pci_view = self._get_pci_view(self.parser.vendor)
        failure = self._failure_before_poll(poll, pci_view)
        if failure is not None:
            return self.outcome_without_poll(poll, failure)
        poll = replace(poll, deadline=min(limit_seconds, poll_intervals.deadline(poll, self.settings)))
        reader = self._readers[poll.name]
        attempt_count = len(poll.request.alternatives) if isinstance(poll.request, Command) else 1
        cpu_seconds = 0.0
        for _ in range(attempt_count):
            capture = reader.read(poll, targets)
            cpu_before = self._worker_cpu_seconds()
            report = self._parse(capture)
            self._on_capture(capture, report)
            cpu_seconds += capture.cpu_seconds + self._worker_cpu_seconds() - cpu_before
            capture = replace(capture, cpu_seconds=cpu_seconds)
            if report is None or not isinstance(reader, CommandReader):
                break
            if report.outcome == "failed":
                reader.reconsider(capture)
            if report.outcome != "wrong_request" or not reader.reject(capture):
                break
        result = result_of(capture, report, pci_view.count if poll.lists_devices else 0)
        return PollOutcome(capture, self._with_unlisted_devices_problem(poll, report, pci_view), result)

    def outcome_if_missing(self, poll: Poll) -> PollOutcome | None:
        """Return the poll's outcome if its tool, library or files are missing, else None. Never blocks."""
        reader = self._readers[poll.name]
        if self.settings.path or not isinstance(reader, CommandReader | WorkerReader):
            return None
        capture = reader.capture_if_missing(poll)
        if capture is None or self._failure_before_poll(poll, self._get_pci_view(self.parser.vendor)) is not None:
            return None
        return PollOutcome(capture, None, result_of(capture, None, 0))

    def close(self) -> None:
        """Stop all running polls and their processes."""
        for reader in self._readers.values():
            reader.close()

    def leftover_pids(self) -> tuple[int, ...]:
        """Return the PIDs of processes that did not exit on `close`."""
        return tuple(dict.fromkeys(pid for reader in self._readers.values() for pid in reader.leftover_pids()))

    def _failure_before_poll(self, poll: Poll, pci_view: PciView) -> Failure | None:
        disabled_reason = self.settings.disabled_reason(poll)
        if disabled_reason:
            return Failure("disabled", None, disabled_reason)
        if poll.wakes and pci_view.suspended_count and not self.settings.wake_suspended:
            counts = f"{pci_view.suspended_count} of {pci_view.count}"
            return Failure("suspended", None, f"{counts} devices are suspended and are not woken")
        return None

    def _with_unlisted_devices_problem(self, poll: Poll, report: Report | None, pci_view: PciView) -> Report | None:
        """Add a problem to the report if devices on the PCI bus are missing from it."""
        if report is None or report.outcome != "ok" or not poll.lists_devices:
            return report
        problem = unlisted_devices_problem(report.devices, self.parser.vendor, pci_view.addresses)
        return report if problem is None else replace(report, problems=(*report.problems, problem))

    def _parse(self, capture: Capture) -> Report | None:
        if capture.failure is not None:
            return None
        try:
            return self.parser.parse(capture)
        except Exception as error:  # a bug in a parser must not affect other sources
            if self._changes.changed(capture.poll, describe_error(error)):
                log.exception("parser failed", extra={"source": self.name, "poll": capture.poll})
            return None

    def outcome_without_poll(self, poll: Poll, failure: Failure) -> PollOutcome:
        """Return the outcome of a poll that could not run."""
        capture = Capture(
            source=self.name,
            poll=poll.name,
            request=poll.request,
            failure=failure,
            wall_time=self._clock.wall(),
            monotonic_time=self._clock.monotonic(),
        )
        return PollOutcome(capture, None, result_of(capture, None, 0))
