"""The owners of cards: on tiles, in the table, in the filter, and in a card's view; also without scripts."""

from pathlib import Path

import pytest

from kits.browser import Tab
from page.looks import barriers, faults
from page.nodes import Node
from page.view import View

pytestmark = pytest.mark.needs("chromium")

OWNERS = [[0, "job", "1234", "alice"], [2, "pod", "ml/train-0/main", ""]]
ON = "[attribution]\nenabled = true\n"
COLUMN = "[...document.querySelectorAll('.dense :is(th, td):nth-child(7)')].filter(e => e.checkVisibility())"


def node(folder: Path, cards: int, config: str = ON) -> Node:
    made = Node(folder, f"{cards}xnvidia", config=f"{config}[sources.nvml]\ninterval = 1.0\n")
    made.set_stage(owners=OWNERS)
    return made


def test_a_few_cards_have_their_owners_on_their_tiles(tab: Tab, tmp_path: Path) -> None:
    staged = node(tmp_path, 3)
    with staged.daemon():
        tab.open(staged.url)
        view = View(tab)
        view.await_live()
        tab.until(lambda: "job 1234 (alice)" in tab.text(), "an owner")
        assert "pod ml/train-0/main" in tab.text("[data-device]:nth-of-type(3)")
        assert columns_without_a_script(tab, staged) == 8
        tab.evaluate("location.hash = 'filter=alice'")
        tab.until(lambda: len(view.devices()) == 1, "the cards of one user")
        view.open_card(view.devices()[0])
        tab.until(lambda: "owner job 1234 (alice)" in view.card().lower(), "the owner of a card")
        assert "the whole card, allocated" in view.card()
        tab.evaluate("location.hash = ''")
        staged.set_stage(owners=[])
        tab.until(lambda: "alice" not in tab.text(), "no owner any more")


def test_many_cards_have_a_column_of_owners_as_long_as_there_are_some(tab: Tab, tmp_path: Path) -> None:
    tab.resize(1280, 900)
    staged = node(tmp_path, 18)
    with staged.daemon():
        tab.open(staged.url)
        View(tab).await_live()
        tab.until(lambda: tab.evaluate(f"{COLUMN}.length") > 18, "a column of owners")
        texts = tab.evaluate(f"{COLUMN}.map(e => e.innerText.trim())")
        assert {"owner", "job 1234 (alice)", "pod ml/train-0/main"} <= set(texts)
        tab.click("[data-sort=owner]")
        first = "document.querySelector('.dense tbody tr').innerText"
        tab.until(lambda: "pod ml/train-0/main" in tab.evaluate(first), "the table in the order of owners")
        assert faults(tab) == {}
        assert barriers(tab) == []
        staged.set_stage(owners=[])
        tab.until(lambda: tab.evaluate(f"{COLUMN}.length") == 0, "no column of owners")


def columns_without_a_script(tab: Tab, staged: Node) -> int:
    with tab.browser.tab() as plain:
        plain.turn_scripts_off()
        plain.open(staged.url)
        heading = plain.evaluate("[...document.querySelectorAll('table')][0].rows[0].innerText")
        assert ("job 1234 (alice)" in plain.text()) == ("OWNER" in heading.upper())
        assert faults(plain) == {}
        return len(heading.split("\t"))


def test_where_owners_are_not_found_out_no_table_has_them(tab: Tab, tmp_path: Path) -> None:
    staged = node(tmp_path, 3, config="")
    with staged.daemon() as daemon:
        daemon.until(lambda: len(daemon.document()["devices"]) == 3)
        assert columns_without_a_script(tab, staged) == 7
