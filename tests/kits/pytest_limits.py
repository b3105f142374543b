"""Stop a test's time limit while pytest makes its report, and do not wait for threads that tests leave running.

An alarm during the report would end pytest and all tests after it.
"""

import os
import sys
import threading
from typing import Any

import pytest

_SETTINGS = pytest.StashKey[Any]()
# The time in which all threads must end after the last test.
_LEFT_SECONDS = 10.0


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> object:
    item.stash[_SETTINGS] = settings
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> object:
    """Stop the clock for the report; setup, call and teardown have a clock each."""
    settings = item.stash.get(_SETTINGS, None)
    if settings is None:
        return _encodable((yield))
    item.ihook.pytest_timeout_cancel_timer(item=item)
    try:
        return _encodable((yield))
    finally:
        if call.when != "teardown":
            item.ihook.pytest_timeout_set_timer(item=item, settings=settings)


def _encodable(report: pytest.TestReport) -> pytest.TestReport:
    """Return the report without surrogates in what a test printed or logged: pytest-xdist cannot send them."""
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """Exit with status 1 and name the threads if tests left threads for which Python would wait."""
    left = [thread for thread in threading.enumerate() if thread is not threading.main_thread() and not thread.daemon]
    for thread in left:
        thread.join(_LEFT_SECONDS / len(left))
    if names := [thread.name for thread in left if thread.is_alive()]:
        print(f"threads were left by tests: {', '.join(names)}", file=sys.stderr, flush=True)
        os._exit(1)
