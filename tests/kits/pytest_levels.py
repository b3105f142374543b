"""Choose the tests of a level, and report which tests are skipped and why; in CI, a skipped test is a failure.

Every test has one level: `long` by its mark, `installed` by its mark or because it needs a program that a plain machine does
not have, else `quick`. A test declares its needs with `@pytest.mark.needs("promtool")`; `root` and `captures` are declared
like programs. A test that starts a program of `tests/needs.txt` without declaring it fails, even if the program is present.
"""

import argparse
import os
import re
import shutil
import sys
import zlib
from collections import Counter
from pathlib import Path

import pytest

from kits.captures import ROOT, shared_folder

LEVELS = ("quick", "installed", "long")
# The Debian packages of programs that are not on every machine.
PACKAGES = {
    program: packages
    for program, *packages in (line.split() for line in (ROOT / "tests" / "needs.txt").read_text().splitlines())
}
# Quick tests use these programs if they are present.
USED_IF_PRESENT = frozenset({"cc", "nm", "promtool"})
_NOT_PROGRAMS = {
    "root": (lambda: os.geteuid() == 0, "only root can do this"),
    "captures": (
        lambda: shared_folder() is not None,
        "for outputs of real tools that may not be published, so that no clone has them: nothing is to be done",
    ),
}


class UndeclaredError(Exception):
    """A test started a program that it does not declare."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--level", choices=LEVELS, action="append", help="run the tests of this level only; may be repeated"
    )
    parser.addoption(
        "--sample", type=_share, metavar="I/N", help="also run one of N equal shares of the tests marked `long`"
    )


def _share(text: str) -> tuple[int, int]:
    found = re.fullmatch("([1-9][0-9]*)/([1-9][0-9]*)", text)
    if found is None or int(found[1]) > int(found[2]):
        raise argparse.ArgumentTypeError(f"'{text}' is not a share; write one such as 2/8")
    return int(found[1]), int(found[2])


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "needs(what, ...): left out, by name, where a program, root or captures are missing"
    )
    config.addinivalue_line("markers", "installed: a test of `make test-all`: what is built, packed or installed")
    config.addinivalue_line("markers", "long: a test of `make test-long`: the same on more inputs, or minutes of work")
    config.pluginmanager.register(ProgramCheck())


def _needed_by(item: pytest.Item) -> set[str]:
    return {word for mark in item.iter_markers("needs") for word in mark.args}


def level_of(item: pytest.Item) -> str:
    if item.get_closest_marker("long"):
        return "long"
    is_installed = item.get_closest_marker("installed") or _needed_by(item) & PACKAGES.keys() - USED_IF_PRESENT
    return "installed" if is_installed else "quick"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the chosen levels and of the sample; mark those that cannot run here as skipped."""
    levels, sample = config.getoption("--level"), config.getoption("--sample")
    chosen = [item for item in items if not levels or level_of(item) in levels or _is_in(sample, item)]
    if len(chosen) < len(items):
        kept = frozenset(chosen)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = chosen
    for item in items:
        if reason := missing(item):
            item.add_marker(pytest.mark.skip(reason=reason))


def _is_in(sample: tuple[int, int] | None, item: pytest.Item) -> bool:
    """Return whether a test belongs to the sample. Its name decides, so that samples are the same in each run."""
    return (
        sample is not None
        and level_of(item) == "long"
        and zlib.crc32(item.nodeid.encode()) % sample[1] + 1 == sample[0]
    )


def missing(item: pytest.Item) -> str:
    """Return why a test cannot run on this machine; empty if it can."""
    needed = _needed_by(item)
    for word in sorted(needed & _NOT_PROGRAMS.keys()):
        is_there, reason = _NOT_PROGRAMS[word]
        if not is_there():
            return reason
    programs = sorted(word for word in needed - _NOT_PROGRAMS.keys() if shutil.which(word) is None)
    packages = sorted({package for program in programs for package in PACKAGES.get(program, ())})
    remedy = f": apt-get install {' '.join(packages)}" if packages else ""
    return f"for lack of {', '.join(programs)}{remedy}" if programs else ""


class ProgramCheck:
    """Refuses programs that the running test does not declare."""

    def __init__(self) -> None:
        self._item: pytest.Item | None = None
        # A hook of the interpreter cannot be removed again; it does nothing between tests.
        sys.addaudithook(self._on_event)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> object:
        """Remember which test runs, with all its fixtures."""
        self._item = item
        try:
            return (yield)
        finally:
            self._item = None

    def _on_event(self, event: str, arguments: tuple[object, ...]) -> None:
        if event != "subprocess.Popen" or self._item is None:
            return
        program = os.fsdecode(arguments[0])
        name = Path(program).name
        # An executable in the test's own folder is no program of the machine.
        installed = program == name or program == shutil.which(name)
        if name in PACKAGES and installed and name not in _needed_by(self._item):
            raise UndeclaredError(f'{self._item.nodeid} starts {name}: add @pytest.mark.needs("{name}")')


def _reason(report: pytest.TestReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", []))
    if reasons:
        terminalreporter.section("left out (a failure where CI=true)")
        terminalreporter.write_line("\n".join(f"{count} {reason}" for reason, count in reasons.most_common()))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail in CI if a test was skipped."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    left_out = reporter is not None and reporter.stats.get("skipped")
    if os.environ.get("CI") == "true" and left_out and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
