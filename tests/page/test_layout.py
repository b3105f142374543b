"""The page on a phone, a laptop and a wall: nothing is cut, overlaps or scrolls sideways, and what should fit on a screen fits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kits.browser import Tab
from page.looks import faults

pytestmark = pytest.mark.needs("chromium")

WIDTHS = (390, 1280, 2560)
CARDS = ("1xnvidia", "16xnvidia", "128xnvidia")
Demo = Callable[[str], str]


@pytest.mark.parametrize("cards", ["16xnvidia", *(pytest.param(each, marks=pytest.mark.rest) for each in CARDS[::2])])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_is_cut_overlaps_or_scrolls_sideways(tab: Tab, demo: Demo, cards: str, theme: str) -> None:
    tab.prefer(color_scheme=theme)
    for width in WIDTHS:
        tab.resize(width, 844 if width == 390 else 1440)
        tab.open(demo(cards))
        assert faults(tab) == {}, width
