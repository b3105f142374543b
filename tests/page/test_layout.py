"""The page on a phone, a laptop and a wall, with and without scripts: no cut or overlapping elements; size and cost."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kits.browser import Tab
from page.looks import below_the_screen, faults
from page.nodes import Node
from page.view import View

pytestmark = pytest.mark.needs("chromium")

SCREENS = ((390, 844), (1280, 800), (2560, 1440))
CARDS = ("8xnvidia", "1xnvidia", "16xnvidia", "64xnvidia", "128xnvidia")
Demo = Callable[[str], str]
RIGHT_EDGE = "Math.max(...[...document.querySelectorAll('main *')].map(e => e.getBoundingClientRect().right))"
# Where the rows and the columns of each table begin, as texts.
TABLE_EDGES = """[...document.querySelectorAll('.tables table')].map((table) => {
  const { x, y } = table.getBoundingClientRect(), cells = [...table.rows[1].cells].filter((cell) => cell.checkVisibility());
  const edges = cells.map((cell) => cell.getBoundingClientRect());
  return edges.map((edge) => `${Math.round(edge.x - x)} ${Math.round(edge.y - y)}`).join();
})"""


@pytest.mark.parametrize("cards", [CARDS[0], *(pytest.param(cards, marks=pytest.mark.long) for cards in CARDS[1:])])
@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.long)])
def test_nothing_is_cut_overlaps_or_scrolls_sideways(tab: Tab, demo: Demo, cards: str, theme: str) -> None:
    tab.prefer(color_scheme=theme)
    for screen in SCREENS:
        tab.resize(*screen)
        tab.open(demo(cards))
        view = View(tab)
        view.await_live()
        assert faults(tab) == {}, screen
        assert tab.evaluate(RIGHT_EDGE) > 0.9 * screen[0], "the whole width is used"
        assert len(set(tab.evaluate(TABLE_EDGES))) <= 1, "tables beside each other are aligned"
        view.open_card(view.devices()[0])
        assert faults(tab) == {}, f"a card's view on {screen}"


def test_a_full_node_fits_a_large_screen_and_its_map_a_phone(tab: Tab, demo: Demo) -> None:
    tab.resize(2560, 1440)
    tab.open(demo("128xnvidia"))
    view = View(tab)
    view.await_live()
    tab.until(lambda: len(view.devices()) == 128, "all cards")
    longest = "document.querySelector('.dense tbody tr').cells[1].lastChild.textContent = 'memory critical 95 °C'"
    assert tab.evaluate(longest)
    cut = "[...document.querySelectorAll('.dense :is(th:first-child, td:nth-child(2))')].filter((e) => e.scrollWidth > e.clientWidth)"
    assert tab.evaluate(cut + ".map((cell) => `${cell.innerText} ${cell.scrollWidth} ${cell.clientWidth}`)") == [], (
        "names and states are whole beside the owners"
    )
    troubles = tab.evaluate("document.querySelector('.troubles').offsetHeight")
    assert below_the_screen(tab) <= troubles, "the cards fit, whatever else there is to report"
    tab.resize(390, 844)
    assert tab.count("#map [data-device]") == 128
    assert tab.evaluate("document.querySelector('#map').getBoundingClientRect().height") <= 844
    cell = "(r => [r.width, r.height])(document.querySelector('#map [data-device]').getBoundingClientRect())"
    assert min(tab.evaluate(cell)) >= 24, "a finger can choose a cell"
    tab.click("#map a[data-device]:nth-of-type(7)")
    tab.until(view.card, "the card's view")


@pytest.fixture
def address(demo: Callable[[str], str]) -> str:
    return demo("16xnvidia")


def test_table_without_scripts_is_complete_and_has_a_reload_link(tab: Tab, address: str) -> None:
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
    assert tab.evaluate(f"{reload_link}?.innerText"), "a link that reloads the page"
    tab.evaluate(f"{reload_link}.click()")
    tab.until(lambda: tab.loads > before, "the page was reloaded")


@pytest.mark.long
@pytest.mark.parametrize("width", [390, 1280, 2560])
def test_page_without_scripts_has_no_layout_fault(tab: Tab, address: str, width: int) -> None:
    tab.resize(width, 900)
    tab.turn_scripts_off()
    tab.open(address)
    assert faults(tab) == {}


# Of a core, at 128 cards with new values each second; a machine of today needs 0.05.
MAX_BUSY, LOOK_SECONDS = 0.25, 20.0


def test_page_requests_only_the_daemon(tab: Tab, demo: Demo) -> None:
    url = demo("16xnvidia")
    tab.open(url)
    View(tab).await_live()
    assert [request for request in tab.requests if not request.startswith(("data:", url))] == []


@pytest.mark.long
@pytest.mark.parametrize("size", [(2560, 1440), (390, 844)])
def test_full_node_needs_little_cpu_in_the_browser(tab: Tab, tmp_path: Path, size: tuple[int, int]) -> None:
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
    assert share <= MAX_BUSY, f"{share:.1%} of a core"
