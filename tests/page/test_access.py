"""Accessibility of the page: keyboard only, forced colours, reduced motion, screen readers."""

from collections.abc import Callable

import pytest

from kits.browser import Tab
from page.looks import barriers
from page.view import View

pytestmark = pytest.mark.needs("chromium")

Demo = Callable[[str], str]
FEW, MANY = "4xnvidia", "20xnvidia"
MAX_STEPS = 60
IN_FOCUS = "document.activeElement"


def opened(tab: Tab, url: str) -> View:
    tab.open(url)
    view = View(tab)
    view.await_live()
    return view


def step_to(tab: Tab, condition: str) -> None:
    """Press Tab until the focused element meets the condition; check that the focus is always visible."""
    for _ in range(MAX_STEPS):
        tab.press("Tab")
        if tab.evaluate(f"{IN_FOCUS} !== document.body"):
            assert tab.evaluate(f"{IN_FOCUS}.checkVisibility()"), "what has the focus is in sight"
        if tab.evaluate(f"(e => Boolean({condition}))({IN_FOCUS})"):
            return
    raise AssertionError(f"not reached by the keyboard: {condition}")


@pytest.mark.parametrize("cards", [FEW, MANY])
@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.long)])
def test_axe_finds_nothing_serious_in_any_view(tab: Tab, demo: Demo, cards: str, theme: str) -> None:
    tab.prefer(color_scheme=theme)
    view = opened(tab, demo(cards))
    assert barriers(tab) == []
    view.open_card(view.devices()[0])
    assert barriers(tab) == []


def test_keyboard_opens_a_card_and_goes_back(tab: Tab, demo: Demo) -> None:
    view = opened(tab, demo(FEW))
    step_to(tab, "e.closest('[data-device]')")
    device = tab.evaluate(f"{IN_FOCUS}.closest('[data-device]').dataset.device")
    assert tab.evaluate(f"getComputedStyle({IN_FOCUS}).outlineStyle !== 'none'"), "one sees where one is"
    tab.press("Enter")
    tab.until(view.card, "the card's view")
    step_to(tab, "e.closest('svg, [role=slider], [role=application]') || e.matches('svg')")
    tab.press("ArrowLeft")
    first = tab.until(
        "document.querySelector('output, [role=status]:not(#banner)')?.innerText", "what the crosshair reads"
    )
    tab.press("ArrowLeft")
    tab.until(f"document.querySelector('output, [role=status]:not(#banner)').innerText !== {first!r}", "another moment")
    tab.press("Escape")
    tab.until(lambda: not view.card(), "all cards")
    back_at = tab.evaluate(f"{IN_FOCUS}.closest('[data-device]')?.dataset.device")
    assert back_at == device, "the focus is where it was"


CLOCKS = "[...document.querySelectorAll('.chart .scale')].map(e => e.innerText)"
PLOT = "(r => [r.x, r.y, r.width, r.height])(document.querySelector('.chart svg').getBoundingClientRect())"


def test_charts_show_a_range_that_keys_buttons_or_the_mouse_choose(tab: Tab, demo: Demo) -> None:
    view = opened(tab, demo(FEW))
    view.open_card(view.devices()[0])
    whole = tab.evaluate(CLOCKS)
    assert len(whole) > 4
    assert len(set(whole)) == 1, "all charts show the same range"
    step_to(tab, "e.innerText === '5 min'")
    tab.press("Enter")
    tab.until(f"{CLOCKS}[0] !== {whole[0]!r}", "five minutes")
    assert tab.evaluate(f"{IN_FOCUS}.ariaPressed") == "true"
    step_to(tab, "e.matches('[role=slider]')")
    five = tab.evaluate(CLOCKS)[0]
    tab.press("+")
    tab.until(f"{CLOCKS}[0] !== {five!r}", "a part of them")
    for _ in range(9):
        tab.press("-")
    tab.until("document.querySelector('.zoom button:last-of-type').ariaPressed === 'true'", "all")
    x, y, width, height = tab.evaluate(PLOT)
    for kind, part in (("mousePressed", 0.25), ("mouseMoved", 0.4), ("mouseReleased", 0.5)):
        point = {"x": x + part * width, "y": y + height / 2}
        tab.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **point)
    tab.until("document.querySelectorAll('.zoom [aria-pressed=true]').length === 0", "a chosen range")
    first, _, last = tab.evaluate(f"{CLOCKS}[0]").split("\n")
    assert first < last
    assert barriers(tab) == []


def test_sorting_and_filtering_by_the_keyboard(tab: Tab, demo: Demo) -> None:
    view = opened(tab, demo(MANY))
    step_to(tab, "e.matches('input[type=search]')")
    tab.type("nvidia 1")
    tab.until(lambda: 0 < len(view.devices()) < 20, "fewer cards")
    step_to(tab, "e.matches('th button')")
    before = tab.evaluate(f"{IN_FOCUS}.closest('th').ariaSort")
    tab.press("Enter")
    tab.until(
        f"{IN_FOCUS}.closest('th').ariaSort !== {before!r}".replace("None", "null"), "another order, and the same focus"
    )


@pytest.mark.long
def test_values_that_change_move_no_focus_and_are_not_all_read_aloud(tab: Tab, demo: Demo) -> None:
    view = opened(tab, demo(FEW))
    step_to(tab, "e.closest('[data-device]')")
    device = tab.evaluate(f"{IN_FOCUS}.closest('[data-device]').dataset.device")
    view.await_news()
    assert tab.evaluate(f"{IN_FOCUS}.closest('[data-device]')?.dataset.device") == device
    assert tab.count("[aria-live]:not([aria-live=off]) [data-metric], [role=status] [data-metric]") == 0


def test_forced_colours_are_kept(tab: Tab, demo: Demo) -> None:
    """If the user's colours replace those of the page, states still differ and the focus is visible."""
    tab.prefer(forced_colors="active")
    view = opened(tab, demo(FEW))
    assert barriers(tab) == []
    assert all(word for word, _ in view.conditions().values()), "each state is a word, too"
    edges = "getComputedStyle(document.querySelector('[data-device]')).borderTopStyle"
    assert tab.evaluate(edges) != "none", "cards differ by more than their background"


def test_reduced_motion_is_respected(tab: Tab, demo: Demo) -> None:
    tab.prefer(reduced_motion="reduce")
    view = opened(tab, demo(FEW))
    view.await_news()
    moving = "document.getAnimations().filter(a => a.playState === 'running').length"
    assert tab.evaluate(moving) == 0
