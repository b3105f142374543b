"""The series of a node's daemon over an hour in promtool's notation: healthy for half of it, then with faults."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

TURN = 30
END = 65
CARDS = 4
LINKS = 2

# A series' name with its labels, and its values in promtool's notation.
Series = dict[str, str]


def steady(value: float) -> str:
    return f"{value}x{END}"


def then(before: float, after: str) -> str:
    """Return one value until the turn, then the values of `after`."""
    return f"{before}x{TURN - 1} {after}"


def gone(value: float) -> str:
    """Return a series that is exposed until the turn, then stale."""
    return then(value, "stale")


def restarted(value: float) -> str:
    """Return a series that is missing from two scrapes after the turn, then back."""
    return then(value, f"stale _ {value}x{END}")


def counting(a_minute: float) -> str:
    return f"0+{a_minute}x{END}"


def counting_again(a_minute: float) -> str:
    """Return a counter that restarts at 0 at the turn."""
    return f"0+{a_minute}x{TURN - 1} 0+{a_minute}x{END}"


@cache
def usual() -> Mapping[str, Mapping[str, float]]:
    """Return the values of a healthy node by kind of labels."""
    sections = re.split(r"\n\n\[(\w+)\]\n", Path(__file__).with_suffix(".txt").read_text())[1:]
    return {
        of: {name: json.loads(value) for name, _, value in (line.rpartition(" ") for line in text.splitlines())}
        for of, text in zip(sections[::2], sections[1::2], strict=True)
    }


_LINK_COUNTERS = ("crc", "replay", "recovery")


@dataclass
class Node:
    """A node's series by full name; the methods change values from the turn on, or for the whole time."""

    name: str = "node1:19820"
    target: Mapping[str, str] = field(default_factory=lambda: {"job": "accelerators"})
    series: Series = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in usual()["node"].items():
            self._put(name, {}, steady(value))
        for name, value in usual()["source"].items():
            self._put(name, {"source": "s"}, steady(value))
        self._put("telemetry_time_seconds", {}, counting(60))
        for name, value in usual()["vendor"].items():
            self._put(name, {"vendor": "v"}, steady(value))
        for card in range(CARDS):
            self._put_card(card)

    def _put_card(self, card: int) -> None:
        labels = {"vendor": "v", "device": str(card), "id": f"id{card}", "model": "m"}
        for name, value in usual()["card"].items():
            self._put(name, labels, steady(value))
        for name, value in usual()["counters"].items():
            self._put(name, labels, counting(value))
        for link in range(LINKS):
            self._put("accelerator_link_up", {**labels, "link": str(link)}, steady(1))
            for kind in _LINK_COUNTERS:
                self._put(f"accelerator_link_{kind}_errors_total", {**labels, "link": str(link)}, steady(0))

    def _put(self, name: str, labels: Mapping[str, str], values: str) -> None:
        own_labels = dict(re.findall(r'(\w+)="([^"]*)"', name))
        every = {**self.target, "instance": self.name, **labels, **own_labels}
        text = ",".join(f'{label}="{value}"' for label, value in sorted(every.items()))
        self.series[f"{name.split('{', maxsplit=1)[0]}{{{text}}}"] = values

    def found(self, *words: str) -> list[str]:
        names = [name for name in self.series if all(word in name for word in words)]
        assert names, words
        return names

    def reports(self, values: str, *words: str) -> Node:
        return self._change_values(self.found(*words), lambda _: values)

    def answering(self, values: str) -> Node:
        return self._change_values([name for name in self.series if name.startswith("up{")], lambda _: values)

    def dead(self) -> Node:
        """The node does not answer from the turn on."""
        return self.unscraped().answering(then(1, f"0x{END}"))

    def unscraped(self) -> Node:
        return self._change_values(list(self.series), lambda values: gone(first(values))).clock("stale")

    def restarted(self) -> Node:
        """The daemon restarts: two failed scrapes, then its own counters start at 0."""
        self._change_values(list(self.series), lambda values: restarted(first(values)))
        self.answering(then(1, f"0 0 1x{END}"))
        self.reports(then(5, f"stale _ {60 * TURN}x{END}"), "process_start_time")
        self.clock(f"stale _ {60 * (TURN + 2)}+60x{END}")
        for counter, a_minute in (("busy_seconds", 58), ("energy_estimated", 60 * 600)):
            self.reports(f"0+{a_minute}x{TURN - 1} stale _ 0+{a_minute}x{END}", counter)
        return self

    def reimaged(self, *missing: int) -> Node:
        """The daemon restarts without its state; these cards are gone, and no series shows it."""
        self.restarted()
        for card in missing:
            self._change_values(self.found("accelerator_", f'id="id{card}"'), lambda values: gone(first(values)))
        self.reports(restarted(CARDS - len(missing)), "telemetry_pci_devices")
        for name in self.found("devices_expected"):
            del self.series[name]
        return self.reports(then(3, f"stale _ {60 * TURN}x{END}"), "remembers_since")

    def clock(self, after: str) -> Node:
        """Set the node's clock: right until the turn, then with these values."""
        return self.reports(f"0+60x{TURN - 1} {after}", "telemetry_time_seconds")

    def without_cards(self) -> Node:
        self._change_values(self.found("accelerator_"), lambda values: gone(first(values)))
        return self.reports(gone(CARDS), "telemetry_devices{")

    def failing(self, state: str) -> Node:
        self.without_cards()
        self.reports(then(1, f"0x{END}"), "source_up").reports(then(1, f"0x{END}"), "source_poll_up")
        self.reports(then(1, f"0x{END}"), 'state="ok"').reports(then(0, f"1x{END}"), f'state="{state}"')
        return self.reports(then(0.4, f"10x{END}"), "duration_seconds")

    def lost(self, card: int) -> Node:
        names = self.found("accelerator_", f'id="id{card}"')
        self._change_values(names, lambda values: gone(first(values)))
        self.reports(then(CARDS, f"{CARDS - 1}x{END}"), "telemetry_devices{")
        self.reports(steady(1), "accelerator_info", f'id="id{card}"')
        return self.reports(then(1, f"0x{END}"), "accelerator_up", f'id="id{card}"')

    def _change_values(self, names: list[str], change: Callable[[str], str]) -> Node:
        for name in names:
            self.series[name] = change(self.series[name])
        return self


def first(values: str) -> float:
    match = re.match(r"-?[\d.e+]+?(?=[x+ ]|$)", values)
    assert match is not None, values
    return float(match[0])


def all_of(*nodes: Node) -> Series:
    """Return the series of these nodes; fail if two have the same name."""
    series: Series = {}
    for node in nodes:
        assert not series.keys() & node.series.keys()
        series |= node.series
    return series
