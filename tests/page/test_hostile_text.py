"""Hostile texts of tools are shown as text: no element, no script, no mirrored line, no broken layout."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from kits.browser import Tab
from page.looks import barriers, faults
from page.nodes import Node
from page.view import View

pytestmark = pytest.mark.needs("chromium")

MARKUP = "<img src=x onerror='window.hacked=1'><script>window.hacked=1</script></script>\"'&amp;"
TEXTS = (
    MARKUP,
    "</template></table></style><iframe srcdoc='<script>parent.hacked=1</script>'>",
    "javascript:window.hacked=1 ${window.hacked=1} {{hacked}}",
    "a\x00b\x1b[31mred\x07\r\n\t\x85\u2028c",
    "abc\u202egpj.exe\u2066\u2069\u200f\u061c",
    "W" * 10_000,
    "x y " * 2_500,
    "☃" + "a\u0301" * 3_000 + "한".encode().decode() * 2_000,
)


@pytest.fixture
def hostile(tmp_path: Path) -> Node:
    node = Node(tmp_path, f"{len(TEXTS)}xnvidia", config="[attribution]\nenabled = true\n")
    cards = range(len(TEXTS))
    node.set_stage(
        hostname=MARKUP,
        models={str(card): text for card, text in zip(cards, TEXTS, strict=True)},
        problems=[[text, text] for text in TEXTS],
        # Longer names are not accepted.
        owners=[[card, "job", text[:1000], text[:1000]] for card, text in zip(cards, TEXTS, strict=True)],
        events=[[card, text, text] for card, text in zip(cards, TEXTS, strict=True)],
        readings=[
            *([card, "temperature_celsius", text, 55.0] for card, text in zip(cards, TEXTS, strict=True)),
            *([card, "throttled", text, 1.0] for card, text in zip(cards, TEXTS, strict=True)),
        ],
    )
    return node


EVERY = range(len(TEXTS))


@pytest.mark.parametrize(
    ("width", "looked_at"),
    [(1280, (0, 5)), *(pytest.param(width, EVERY, marks=pytest.mark.long) for width in (390, 1280))],
)
def test_hostile_text_is_harmless_in_every_view(tab: Tab, hostile: Node, width: int, looked_at: Sequence[int]) -> None:
    tab.resize(width, 900)
    with hostile.daemon() as daemon:
        daemon.until(lambda: daemon.document()["devices"])
        tab.open(hostile.url)
        view = View(tab)
        view.await_live()
        view.await_news()
        harmless(tab)
        ids = view.devices()
        for device in (ids[card] for card in looked_at):
            view.open_card(device)
            harmless(tab)
            tab.evaluate("history.back()")
            tab.until(lambda: len(view.devices()) == len(TEXTS), "all cards")
        assert barriers(tab) == []
        assert all(request.startswith((hostile.url, "data:")) for request in tab.requests), tab.requests


def harmless(tab: Tab) -> None:
    assert tab.evaluate("window.hacked") is None
    assert tab.count("img, iframe, object, embed, form[action], script[src]:not([src^='./'])") == 0
    assert tab.count("script") <= 1
    controls = tab.evaluate(r"document.body.innerText.match(/[\x00-\x08\x0b-\x1f\x7f\x85\u202a-\u202e\u2066-\u2069]/)")
    assert controls is None
    assert faults(tab) == {}
