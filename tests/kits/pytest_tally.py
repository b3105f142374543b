"""With --tally=FILE, one line of JSON for each test that ended, so that whoever runs several pytests can add them up.

A file that is there already is continued: of its tests, those that ended are left out, and one that was begun and never ended
has failed, since the pytest that ran it ended with it.
"""

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
        told = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        ended = {line["test"] for line in told if "test" in line}
        begun = {line["begun"] for line in told if "begun" in line}
        self._known = ended | begun
        self._file = file.open("a", buffering=1)
        for test in sorted(begun - ended):
            self._write(test=test, outcome="failed", why="its pytest ended within it")

    def _write(self, **line: object) -> None:
        self._file.write(json.dumps(line) + "\n")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        known = [item for item in items if item.nodeid in self._known]
        if known:
            config.hook.pytest_deselected(items=known)
            items[:] = [item for item in items if item.nodeid not in self._known]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if not self._known:
            self._write(collected=len(session.items))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._write(begun=nodeid)

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
