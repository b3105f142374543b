"""The page on a phone, a laptop and a wall: nothing is cut, overlaps or scrolls sideways, and what should fit on a screen fits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kits.browser import Tab
from page.looks import below_the_screen, faults
from page.view import View

pytestmark = pytest.mark.needs("chromium")

SCREENS = ((390, 844), (1280, 800), (2560, 1440))
CARDS = ("1xnvidia", "16xnvidia", "128xnvidia")
Demo = Callable[[str], str]


@pytest.mark.parametrize("cards", ["16xnvidia", *(pytest.param(each, marks=pytest.mark.long) for each in CARDS[::2])])
@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.long)])
def test_nothing_is_cut_overlaps_or_scrolls_sideways(tab: Tab, demo: Demo, cards: str, theme: str) -> None:
    tab.prefer(color_scheme=theme)
    for screen in SCREENS:
        tab.resize(*screen)
        tab.open(demo(cards))
        view = View(tab)
        view.await_live()
        assert faults(tab) == {}, screen
        view.open_card(view.devices()[0])
        assert faults(tab) == {}, f"a card's view on {screen}"


def test_a_full_node_fits_a_large_screen_and_its_map_a_phone(tab: Tab, demo: Demo) -> None:
    tab.resize(2560, 1440)
    tab.open(demo("128xnvidia"))
    view = View(tab)
    view.await_live()
    tab.until(lambda: len(view.devices()) == 128, "all cards")
    assert below_the_screen(tab) <= 0
    tab.resize(390, 844)
    assert tab.count("#map [data-device]") == 128
    assert tab.evaluate("document.querySelector('#map').getBoundingClientRect().height") <= 844
    cell = "(r => [r.width, r.height])(document.querySelector('#map [data-device]').getBoundingClientRect())"
    assert min(tab.evaluate(cell)) >= 24, "a finger can choose a cell"
    tab.click("#map a[data-device]:nth-of-type(7)")
    tab.until(view.card, "the card's view")


@pytest.mark.long
def test_the_whole_width_is_used(tab: Tab, demo: Demo) -> None:
    for width, height in SCREENS:
        tab.resize(width, height)
        tab.open(demo("128xnvidia"))
        View(tab).await_live()
        used = tab.evaluate(
            "Math.max(...[...document.querySelectorAll('main *')].map(e => e.getBoundingClientRect().right))"
        )
        assert used > 0.9 * width
