"""Fixtures of the page's tests: one Chromium, and nodes."""

import contextlib
from collections.abc import Callable, Iterator

import pytest

from kits.browser import Browser, Tab, chromium
from kits.daemon import Daemon


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture
def tab(browser: Browser) -> Iterator[Tab]:
    with browser.tab() as opened:
        yield opened
        assert opened.unforgiven() == []


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """Return a function from cards such as `16xnvidia` to the page's address; a started node serves all tests."""
    started: dict[str, Daemon] = {}
    with contextlib.ExitStack() as running:

        def url(cards: str) -> str:
            if cards not in started:
                folder = tmp_path_factory.mktemp("demo")
                started[cards] = running.enter_context(Daemon(folder, arguments=("--demo", cards)))
                started[cards].until(lambda: started[cards].document()["devices"])
            return f"http://{started[cards].address}/"

        yield url
