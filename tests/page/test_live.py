"""The page while the daemon runs, after it stopped in any way, and when it is back."""

import contextlib
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kits.browser import Tab
from kits.daemon import Daemon
from page.nodes import Node
from page.view import View

pytestmark = pytest.mark.needs("chromium")

# The browser's errors about a stopped daemon; the name depends on the state of the request.
AWAY = r"^Failed to load resource: net::ERR_"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path, "3xnvidia", config="[sources.nvml]\ninterval = 1.0\n")


@pytest.fixture
def view(tab: Tab) -> View:
    tab.forgiven = AWAY
    return View(tab)


def opened(view: View, node: Node) -> None:
    """Open the node's page, and mark the document, so that a reload is noticed."""
    view.tab.open(node.url)
    view.await_live()
    view.tab.evaluate("window.first = true")


def is_the_same_document(tab: Tab) -> bool:
    return len(tab.navigations) == 1 and tab.evaluate("window.first === true")


def test_page_reconnects_when_the_daemon_is_back(view: View, node: Node) -> None:
    with node.daemon() as daemon:
        opened(view, node)
        view.await_news()
        assert is_the_same_document(view.tab)
        daemon.stop()
    view.tab.until(view.banner, "a banner")
    assert all(view.values())
    with node.daemon():
        view.await_live()
        view.await_news()
    assert is_the_same_document(view.tab)


@contextlib.contextmanager
def back(node: Node, daemon: Daemon, way: signal.Signals) -> Iterator[None]:
    if way == signal.SIGSTOP:
        daemon.signal(signal.SIGCONT)
        yield
    else:
        with node.daemon():
            yield


@pytest.mark.long
@pytest.mark.parametrize("way", [signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP])
def test_the_last_values_stay_and_are_shown_as_old(view: View, node: Node, way: signal.Signals) -> None:
    with node.daemon() as daemon:
        opened(view, node)
        last = view.values()
        daemon.signal(way)
        view.tab.until(view.banner, "a banner")
        assert re.search(r"\d\d:\d\d:\d\d", view.banner()), "the banner has the time of the last values"
        view.tab.until(view.is_stale, "greyed values")
        assert len(view.values()) == len(last)
        assert all(view.values())
        with back(node, daemon, way):
            view.await_live()
            view.await_news()
    assert is_the_same_document(view.tab)


@pytest.mark.long
def test_page_reconnects_after_an_upgrade(view: View, node: Node) -> None:
    with node.daemon():
        opened(view, node)
    view.tab.until(view.banner, "a banner")
    with node.daemon(upgraded=True):
        view.await_live()
        view.await_news()
        view.tab.until("document.body.innerText.includes('99.9.9')", "the new version")
