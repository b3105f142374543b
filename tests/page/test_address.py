"""The address contains the selected view: it survives a reload, supports back and forward, and can be shared."""

from collections.abc import Callable

import pytest

from kits.browser import Browser, Tab
from page.view import View

pytestmark = pytest.mark.needs("chromium")

SIXTEEN, MANY = "16xnvidia", "20xnvidia"


def chosen(tab: Tab) -> object:
    return tab.evaluate(
        "({card: document.querySelector('#card:not([hidden]) h2')?.innerText ?? '',"
        " filter: document.querySelector('input[type=search]')?.value,"
        " metric: document.querySelector('select')?.value,"
        " sorted: [...document.querySelectorAll('th[aria-sort]')].map(e => [e.innerText, e.ariaSort]),"
        " shown: [...document.querySelectorAll('[data-device]')].filter(e => e.checkVisibility()).length})"
    )


@pytest.fixture
def view(tab: Tab, demo: Callable[[str], str]) -> View:
    tab.open(demo(MANY))
    view = View(tab)
    view.await_live()
    return view


def choose_all(view: View) -> list[object]:
    tab, states = view.tab, [chosen(view.tab)]
    tab.evaluate(
        "(s => {s.selectedIndex = 2; s.dispatchEvent(new Event('change', {bubbles: true}))})(document.querySelector('select'))"
    )
    states.append(chosen(tab))
    tab.click("th:nth-of-type(4) button")
    states.append(chosen(tab))
    tab.click("input[type=search]")
    tab.type("nvidia 1")
    tab.until(lambda: 0 < len(view.devices()) < 20, "fewer cards")
    states.append(chosen(tab))
    view.open_card(view.devices()[0])
    states.append(chosen(tab))
    assert len({str(state) for state in states}) == len(states), "each choice is seen"
    return states


def test_a_reload_and_a_colleague_see_the_same(view: View, browser: Browser) -> None:
    states = choose_all(view)
    view.tab.reload()
    view.await_live()
    view.tab.until(lambda: chosen(view.tab) == states[-1], f"{states[-1]}")
    with browser.tab() as other:
        other.open(view.tab.evaluate("location.href"))
        other.until(lambda: chosen(other) == states[-1], f"{states[-1]}")


def test_back_and_forward_buttons_change_the_view(view: View) -> None:
    states = choose_all(view)
    view.tab.evaluate("history.back()")
    view.tab.until(lambda: chosen(view.tab) == states[-2], f"all cards as before: {states[-2]}")
    view.tab.evaluate("history.forward()")
    view.tab.until(lambda: chosen(view.tab) == states[-1], f"the card again: {states[-1]}")
    assert len(view.tab.navigations) == 1


@pytest.mark.long
def test_an_address_that_names_nothing_there_shows_the_cards(tab: Tab, demo: Callable[[str], str]) -> None:
    for part in ("#card=GPU-gone", "#sort=nonsense&metric=nonsense&filter=", "#card=%00%ff&sort=<b>&&=", "?whatever#x"):
        tab.open("about:blank")  # else only the part behind the # would change
        tab.open(demo(SIXTEEN) + part)
        view = View(tab)
        view.await_live()
        assert len(view.devices()) == 16 or view.card(), part
