"""Keeps a recording back until an accelerator's source has answered, so that none is begun in which there is nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable

from telemetry_daemon.replay.reports import Reports
from telemetry_parsers.model import Capture, Report

# Takes a capture, and its parser's report.
Keep = Callable[[Capture, "Report | None"], None]
_FAILED = ("failed", "stuck")


class FromFirstAnswer:
    """Hands captures on from the first answer of an accelerator; of what came before, the newest of each poll. From any thread."""

    def __init__(self, keep: Keep, reports: Reports) -> None:
        self._keep = keep
        self._reports = reports
        self._lock = threading.Lock()
        self._waiting: dict[tuple[str, str], tuple[Capture, Report | None]] = {}
        self.has_begun = False

    def __call__(self, capture: Capture, report: Report | None) -> None:
        """Keep a capture, or keep it back."""
        if not self.has_begun:
            with self._lock:
                if not self._begins(capture):
                    self._waiting[capture.source, capture.poll] = (capture, report)
                    return
                while self._waiting:
                    self._keep(*self._waiting.pop(next(iter(self._waiting))))
        self._keep(capture, report)

    @property
    def failures(self) -> dict[str, str]:
        """Of each accelerator's source that failed and said nothing: why."""
        with self._lock:
            waiting = [capture for capture, _ in self._waiting.values() if self._is_of_accelerator(capture)]
        failures = ((one.source, one.failure) for one in waiting if one.failure is not None)
        return {source: failure.text for source, failure in failures if failure.state in _FAILED}

    def _begins(self, capture: Capture) -> bool:
        self.has_begun = self.has_begun or (self._is_of_accelerator(capture) and _says_something(capture))
        return self.has_begun

    def _is_of_accelerator(self, capture: Capture) -> bool:
        parser = self._reports.parser(capture)
        return parser is not None and bool(parser.vendor)


def _says_something(capture: Capture) -> bool:
    return any(output.text or output.stderr or output.data is not None for output in capture.outputs)
