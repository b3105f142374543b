"""What the page weighs, and what it costs the browser that shows it."""

from __future__ import annotations

import gzip
import time
from pathlib import Path

import pytest

from kits.browser import Tab
from kits.waiting import scaled
from page.nodes import Node
from page.view import View

pytestmark = pytest.mark.needs("chromium")

OURS = "[...document.querySelectorAll('script, style')].map(e => e.textContent)"
MOST_BYTES, MOST_PACKED = 60_000, 16_000
# Of a core, at 128 cards with new values each second.
MOST_BUSY, LOOK_SECONDS = 0.05, 20.0


def test_script_and_style_are_small_and_readable_and_ask_the_daemon_only(tab: Tab, demo) -> None:
    url = demo("16xnvidia")
    tab.open(url)
    View(tab).await_live()
    assert [request for request in tab.requests if not request.startswith(("data:", url))] == []
    source = "\n".join(tab.evaluate(OURS)).encode()
    assert len(source) <= MOST_BYTES
    assert len(gzip.compress(source, 6)) <= MOST_PACKED
    assert max(map(len, source.splitlines())) <= 200, "it is written for people"


@pytest.mark.long
@pytest.mark.parametrize("size", [(2560, 1440), (390, 844)])
def test_a_full_node_costs_the_browser_little(tab: Tab, tmp_path: Path, size: tuple[int, int]) -> None:
    node = Node(tmp_path, "128xnvidia", config="[sources.nvml]\ninterval = 1.0\n")
    tab.resize(*size)
    with node.daemon():
        tab.open(node.url)
        View(tab).await_live()
        tab.until(lambda: len(View(tab).devices()) == 128, "all cards")
        began, busy = time.monotonic(), tab.busy_seconds()
        while time.monotonic() - began < LOOK_SECONDS:
            tab.browser.listen(1.0)
        share = (tab.busy_seconds() - busy) / (time.monotonic() - began)
    assert share <= scaled(MOST_BUSY), f"{share:.1%} of a core"
