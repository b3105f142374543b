"""With --tally=FILE, one line of JSON for each test that ended, so that whoever runs several pytests can add them up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kits.pytest_needs import why_left_out


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --tally."""
    parser.addoption("--tally", type=Path, help="a file that each test which ended is written to, as a line of JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Write only where it is asked for."""
    if file := config.getoption("--tally"):
        config.pluginmanager.register(Tally(file))


class Tally:
    """Writes how many tests there are and how each of them ended: passed, failed or left out."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("w", buffering=1)

    def _write(self, **line: object) -> None:
        self._file.write(json.dumps(line) + "\n")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._write(collected=len(session.items))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(test=report.nodeid, outcome="failed", why="cannot be collected")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            text = crash.message if crash else report.longreprtext
            self._write(test=report.nodeid, outcome="failed", why=text.partition("\n")[0])
        elif report.skipped:
            self._write(test=report.nodeid, outcome="left out", why=why_left_out(report))
        elif report.when == "call":
            self._write(test=report.nodeid, outcome="passed", why="")

    def pytest_unconfigure(self) -> None:
        self._file.close()
