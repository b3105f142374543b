"""The visible content of the page, found by the marks of its elements."""

import json
from dataclasses import dataclass

from kits.browser import Tab

# The first element of a device that is shown: its tile, its row or its cell of the map.
_SHOWN = """[...document.querySelectorAll('[data-device]')].filter(e => e.checkVisibility())"""


@dataclass
class View:
    tab: Tab

    def devices(self) -> list[str]:
        ids = self.tab.evaluate(f"{_SHOWN}.map(e => e.dataset.device)")
        return list(dict.fromkeys(ids))

    def conditions(self) -> dict[str, tuple[str, str]]:
        """Return the visible condition of each device, and the severity of its style."""
        found = self.tab.evaluate(
            f"{_SHOWN}.map(e => [e.dataset.device, e.querySelector('.state')]).filter(([, state]) => state)"
            ".map(([id, state]) => [id, state.innerText.trim(), state.className])"
        )
        grave = ("good", "quiet", "warning", "bad")
        return {
            device: (word, next((name for name in grave if name in classes.split()), ""))
            for device, word, classes in found
        }

    def value(self, device: str, metric: str) -> str:
        selector = f"[data-device={json.dumps(device)}] [data-metric={metric}]"
        return self.tab.text(selector).strip()

    def values(self) -> list[str]:
        return list(
            self.tab.evaluate(
                "[...document.querySelectorAll('[data-metric]')].filter(e => e.checkVisibility())"
                ".map(e => e.innerText.trim())"
            )
        )

    def open_card(self, device: str) -> None:
        self.tab.click(f"[data-device={json.dumps(device)}] a")
        self.tab.until(self.card, f"the view of {device}")

    def card(self) -> str:
        return self.tab.text("#card:not([hidden])").strip()

    def banner(self) -> str:
        """Return the banner of the page while the daemon does not answer; otherwise ""."""
        return self.tab.text("#banner:not([hidden])").strip()

    def is_stale(self) -> bool:
        return bool(self.tab.count(".stale"))

    def await_live(self) -> None:
        self.tab.until(lambda: self.tab.count("body.live:not(.stale)") and any(self.values()), "a live page")

    def await_news(self) -> None:
        before = self.values()
        self.tab.until(lambda: self.values() not in ([], before), "values that change")
