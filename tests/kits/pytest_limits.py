"""A test's time limit does not run while pytest makes the report on it: an alarm in there would end pytest and all tests after it."""

from __future__ import annotations

from typing import Any

import pytest

_SETTINGS = pytest.StashKey[Any]()


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> object:
    """Know the limit, to set it again."""
    item.stash[_SETTINGS] = settings
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> object:
    """Stop the clock for the report; what comes after it has its own time."""
    settings = item.stash.get(_SETTINGS, None)
    if settings is None:
        return (yield)
    item.ihook.pytest_timeout_cancel_timer(item=item)
    try:
        return (yield)
    finally:
        if call.when != "teardown":
            item.ihook.pytest_timeout_set_timer(item=item, settings=settings)
