"""Without JavaScript: the whole table, and a link to load it anew. Nothing loads it by itself, over the last values."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kits.browser import Tab
from page.looks import faults

pytestmark = pytest.mark.needs("chromium")


@pytest.fixture
def address(demo: Callable[[str], str]) -> str:
    return demo("16xnvidia")


def test_the_table_is_whole_and_can_be_loaded_anew(tab: Tab, address: str) -> None:
    tab.turn_scripts_off()
    tab.open(address)
    cells = "[...document.querySelectorAll('table')].flatMap(t => [...t.rows].map(r => r.innerText))"
    rows = tab.evaluate(cells)
    assert len([row for row in rows if "GPU-" in row and "°C" in row and "W" in row]) == 16
    assert tab.count("meta[http-equiv=refresh]") == 0
    before = tab.loads
    reload_link = (
        "[...document.links].find(a => a.checkVisibility() && a.href.split('?')[0] === location.href && a.innerText)"
    )
    assert tab.evaluate(f"{reload_link}?.innerText"), "a link that loads the page anew"
    tab.evaluate(f"{reload_link}.click()")
    tab.until(lambda: tab.loads > before, "the page loaded anew")


def test_a_card_has_its_readings_and_reasons(tab: Tab, address: str) -> None:
    tab.turn_scripts_off()
    tab.open(address)
    before = tab.loads
    tab.click("[data-device] a")
    tab.until(lambda: tab.loads > before, "the card's page")
    assert "GPU-" in tab.text()
    assert "not supported" in tab.text()
    assert tab.count("dl.list > div") > 60


@pytest.mark.long
@pytest.mark.parametrize("width", [390, 1280, 2560])
def test_it_is_as_well_laid_out(tab: Tab, address: str, width: int) -> None:
    tab.resize(width, 900)
    tab.turn_scripts_off()
    tab.open(address)
    assert faults(tab) == {}
