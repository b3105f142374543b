"""No thread that a test leaves keeps pytest running."""

from __future__ import annotations

import os
import sys
import threading

import pytest

# For all threads that are still running after the last test.
_LEFT_SECONDS = 10.0


def _encodable(report: pytest.TestReport) -> pytest.TestReport:
    """Return the report without surrogates in what a test printed or logged: pytest-xdist cannot send them."""
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """Exit with status 1 if threads that Python would wait for are left by a test, and name them."""
    left = [thread for thread in threading.enumerate() if thread is not threading.main_thread() and not thread.daemon]
    for thread in left:
        thread.join(_LEFT_SECONDS / len(left))
    if names := [thread.name for thread in left if thread.is_alive()]:
        print(f"threads were left by tests: {', '.join(names)}", file=sys.stderr, flush=True)
        os._exit(1)
