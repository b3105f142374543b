"""Tests that need more than a bare machine has: left out where it is missing, told by reason at the end, a failure where CI=true.

A test says `pytestmark = pytest.mark.needs("promtool")`, or the same as a decorator; `root` and `captures` are said like
programs. A test that starts a program of `tests/needs.txt` without saying so fails, also where the program is there.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest

from kits.captures import ROOT, shared_folder

# Programs that not every Debian has, with their packages.
PACKAGES = {
    program: packages
    for program, *packages in (line.split() for line in (ROOT / "tests" / "needs.txt").read_text().splitlines())
}
_NOT_PROGRAMS = {
    "root": (lambda: os.geteuid() == 0, "only root can do this"),
    "captures": (
        lambda: shared_folder() is not None,
        "for outputs of real tools that may not be published, so that no clone has them: nothing is to be done",
    ),
}


class UndeclaredError(Exception):
    """A test starts a program that it does not say it needs."""


def lacking(item: pytest.Item) -> str:
    """Why a test cannot run on this machine; empty where it can."""
    needed = _needed_by(item)
    for word in needed & _NOT_PROGRAMS.keys():
        is_there, reason = _NOT_PROGRAMS[word]
        if not is_there():
            return reason
    programs = sorted(word for word in needed - _NOT_PROGRAMS.keys() if shutil.which(word) is None)
    packages = sorted({package for program in programs for package in PACKAGES.get(program, ())})
    remedy = f": apt-get install {' '.join(packages)}" if packages else ""
    return f"for lack of {', '.join(programs)}{remedy}" if programs else ""


def _needed_by(item: pytest.Item) -> set[str]:
    return {word for mark in item.iter_markers("needs") for word in mark.args}


class Watch:
    """Refuses programs that the running test does not say it needs."""

    def __init__(self) -> None:
        self._item: pytest.Item | None = None
        # A hook of the interpreter cannot be taken off again; it stays harmless between tests.
        sys.addaudithook(self._heard)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> object:
        """Know which test runs, with all its fixtures."""
        self._item = item
        try:
            return (yield)
        finally:
            self._item = None

    def _heard(self, event: str, arguments: tuple[object, ...]) -> None:
        if event != "subprocess.Popen" or self._item is None:
            return
        program = os.fsdecode(arguments[0])
        name = Path(program).name
        # What the test itself has put below its own folder is no program of the machine.
        installed = program == name or program == shutil.which(name)
        if name in PACKAGES and installed and name not in _needed_by(self._item):
            raise UndeclaredError(f'{self._item.nodeid} starts {name}: say @pytest.mark.needs("{name}")')


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", "needs(what, ...): left out and told where a program, root or captures lack")
    config.pluginmanager.register(Watch())


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what cannot run here."""
    for item in items:
        if reason := lacking(item):
            item.add_marker(pytest.mark.skip(reason=reason))


def why_left_out(report: pytest.TestReport) -> str:
    """The reason of a skipped test."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell what did not run, by reason."""
    reasons = Counter(why_left_out(report) for report in terminalreporter.stats.get("skipped", []))
    if reasons:
        terminalreporter.section("tests that did not run")
        terminalreporter.write_line("\n".join(f"{count} {reason}" for reason, count in reasons.most_common()))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI, what did not run is a failure."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    left_out = reporter is not None and reporter.stats.get("skipped")
    if os.environ.get("CI") == "true" and left_out and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
