"""Tests that need a tool of the machine: left out where it is missing, named at the end, a failure where CI=true.

A test says `pytestmark = pytest.mark.needs("promtool")`, or the same as a decorator. Skipped tests are treated alike,
except those that had no shared captures to read: these lie beside the checkout on some machines only.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter

import pytest

LEFT_OUT = pytest.StashKey[Counter[str]]()
_NO_CAPTURES = ("got empty parameter set", "no shared captures")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", "needs(tool, ...): left out and named where one of the commands is missing")
    config.stash[LEFT_OUT] = Counter()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what cannot run here."""
    lacking = {item: missing_tools(item) for item in items}
    for tools in lacking.values():
        config.stash[LEFT_OUT].update(tools)
    config.hook.pytest_deselected(items=[item for item in items if lacking[item]])
    items[:] = [item for item in items if not lacking[item]]


def missing_tools(item: pytest.Item) -> list[str]:
    """The commands that a test needs and the machine lacks."""
    tools = {tool for mark in item.iter_markers("needs") for tool in mark.args}
    return sorted(tool for tool in tools if shutil.which(tool) is None)


def _skipped(reporter: pytest.TerminalReporter) -> list[pytest.TestReport]:
    reports = reporter.stats.get("skipped", [])
    return [report for report in reports if not any(words in str(report.longrepr) for words in _NO_CAPTURES)]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name what did not run."""
    lines = [f"{count} for lack of {tool}" for tool, count in sorted(config.stash[LEFT_OUT].items())]
    skipped = len(_skipped(terminalreporter))
    lines += [f"{skipped} skipped, see above"] if skipped else []
    if lines:
        terminalreporter.section("tests that did not run")
        terminalreporter.write_line("\n".join(lines))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI, what did not run is a failure."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    left_out = bool(session.config.stash[LEFT_OUT]) or (reporter is not None and bool(_skipped(reporter)))
    if os.environ.get("CI") == "true" and left_out and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
