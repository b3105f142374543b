"""A node with all that its daemon tells, as promtool's series over an hour: well, and after half of it not so well."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

TURN = 30
END = 65
CARDS = 4
LINKS = 2

# A series' name with its labels, and its values in promtool's notation.
Series = dict[str, str]


def steady(value: float) -> str:
    return f"{value}x{END}"


def then(before: float, after: str) -> str:
    """One value until the turn, then what stands in `after`."""
    return f"{before}x{TURN - 1} {after}"


def gone(value: float) -> str:
    """Told until the turn, and not any more, which Prometheus notes."""
    return then(value, "stale")


def restarted(value: float) -> str:
    """Missing from two scrapes, and there again."""
    return then(value, f"stale _ {value}x{END}")


def counting(a_minute: float) -> str:
    return f"0+{a_minute}x{END}"


def counting_anew(a_minute: float) -> str:
    """A counter that begins again at the turn."""
    return f"0+{a_minute}x{TURN - 1} 0+{a_minute}x{END}"


_OF_NODE: Mapping[str, float] = {
    "up": 1,
    'telemetry_build_info{version="1",python="3"}': 1,
    "process_start_time_seconds": 5,
    "telemetry_config_last_reload_successful": 1,
    "telemetry_remembers_since_timestamp_seconds": 3,
}
_OF_SOURCE: Mapping[str, float] = {
    "telemetry_source_up": 1,
    'telemetry_source_state{state="ok"}': 1,
    'telemetry_source_state{state="failed"}': 0,
    'telemetry_source_state{state="stuck"}': 0,
    'telemetry_source_state{state="released"}': 0,
    "telemetry_source_problems": 0,
    'telemetry_source_poll_up{poll="readings"}': 1,
    'telemetry_source_poll_up{poll="slow"}': 1,
    'telemetry_source_duration_seconds{poll="readings"}': 0.4,
    'telemetry_source_duration_seconds{poll="slow"}': 2,
}
_OF_VENDOR: Mapping[str, float] = {
    "telemetry_pci_devices": CARDS,
    "telemetry_devices_expected": CARDS,
    'telemetry_devices{model="m"}': CARDS,
}
_OF_CARD: Mapping[str, float] = {
    "accelerator_up": 1,
    "accelerator_info": 1,
    'accelerator_temperature_celsius{sensor="junction"}': 66,
    'accelerator_temperature_celsius{sensor="memory"}': 70,
    'accelerator_temperature_slowdown_celsius{sensor="junction"}': 100,
    "accelerator_power_watts": 600,
    "accelerator_power_cap_watts": 700,
    'accelerator_clock_hertz{domain="sm"}': 1.7e9,
    'accelerator_clock_hertz{domain="memory"}': 2.6e9,
    "accelerator_memory_activity_ratio": 0.6,
    "accelerator_memory_total_bytes": 8e10,
    "accelerator_memory_used_ratio": 0.8,
    "accelerator_utilization_ratio": 0.97,
    "accelerator_fan_ratio": 0.4,
    'accelerator_throttled{reason="hw_thermal"}': 0,
    'accelerator_throttled{reason="sw_thermal"}': 0,
    'accelerator_throttled{reason="hw_power_brake"}': 0,
    "accelerator_pcie_link_width": 16,
    "accelerator_pcie_link_width_max": 16,
    "accelerator_pcie_link_generation": 5,
    "accelerator_pcie_link_generation_max": 5,
    'accelerator_ecc_corrected_total{location="dram"}': 12,
    'accelerator_ecc_uncorrected_total{location="dram"}': 0,
    'accelerator_ecc_uncorrected_total{location="sram"}': 0,
    'accelerator_retired_pages{cause="all"}': 0,
    'accelerator_remapped_rows{cause="uncorrectable"}': 0,
    "accelerator_row_remap_pending": 0,
    "accelerator_row_remap_failed": 0,
    'accelerator_recovery_action{action="none"}': 1,
    'accelerator_recovery_action{action="reset"}': 0,
    'accelerator_health{state="ok"}': 1,
    'accelerator_health{state="alarm"}': 0,
}
_COUNTERS: Mapping[str, float] = {
    "accelerator_pcie_replays_total": 1,
    "accelerator_busy_seconds_total": 58,
    "accelerator_energy_estimated_joules_total": 60 * 600,
}
_LINK_COUNTERS = ("crc", "replay", "recovery")


@dataclass
class Node:
    """A node's series by their full names; the methods change what they are from the turn on, or all the time."""

    name: str = "node1:19820"
    target: Mapping[str, str] = field(default_factory=lambda: {"job": "accelerators"})
    series: Series = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in _OF_NODE.items():
            self._put(name, {}, steady(value))
        for name, value in _OF_SOURCE.items():
            self._put(name, {"source": "s"}, steady(value))
        self._put("telemetry_time_seconds", {}, counting(60))
        for name, value in _OF_VENDOR.items():
            self._put(name, {"vendor": "v"}, steady(value))
        for card in range(CARDS):
            self._put_card(card)

    def _put_card(self, card: int) -> None:
        labels = {"vendor": "v", "device": str(card), "id": f"id{card}", "model": "m"}
        for name, value in _OF_CARD.items():
            self._put(name, labels, steady(value))
        for name, value in _COUNTERS.items():
            self._put(name, labels, counting(value))
        for link in range(LINKS):
            self._put("accelerator_link_up", {**labels, "link": str(link)}, steady(1))
            for kind in _LINK_COUNTERS:
                self._put(f"accelerator_link_{kind}_errors_total", {**labels, "link": str(link)}, steady(0))

    def _put(self, name: str, labels: Mapping[str, str], values: str) -> None:
        own = dict(re.findall(r'(\w+)="([^"]*)"', name))
        every = {**self.target, "instance": self.name, **labels, **own}
        text = ",".join(f'{label}="{value}"' for label, value in sorted(every.items()))
        self.series[f"{name.split('{', maxsplit=1)[0]}{{{text}}}"] = values

    def found(self, *words: str) -> list[str]:
        """The series in which all these words are; at least one."""
        names = [name for name in self.series if all(word in name for word in words)]
        assert names, words
        return names

    def tells(self, values: str, *words: str) -> Node:
        """These series have these values."""
        return self._each(self.found(*words), lambda _: values)

    def answering(self, values: str) -> Node:
        """Whether Prometheus gets an answer."""
        return self._each([name for name in self.series if name.startswith("up{")], lambda _: values)

    def dead(self) -> Node:
        """The node does not answer from the turn on."""
        return self.unscraped().answering(then(1, f"0x{END}"))

    def unscraped(self) -> Node:
        """Nobody scrapes the node any more, or whoever does cannot tell it, from the turn on."""
        return self._each(list(self.series), lambda values: gone(first(values))).clock("stale")

    def restarted(self) -> Node:
        """The daemon starts anew: two scrapes without anything, and its own counters from 0."""
        self._each(list(self.series), lambda values: restarted(first(values)))
        self.answering(then(1, f"0 0 1x{END}"))
        self.tells(then(5, f"stale _ {60 * TURN}x{END}"), "process_start_time")
        self.clock(f"stale _ {60 * (TURN + 2)}+60x{END}")
        for counter, a_minute in (("busy_seconds", 58), ("energy_estimated", 60 * 600)):
            self.tells(f"0+{a_minute}x{TURN - 1} stale _ 0+{a_minute}x{END}", counter)
        return self

    def reimaged(self, *missing: int) -> Node:
        """The daemon starts anew and remembers nothing; these cards are not there any more, and nothing tells that."""
        self.restarted()
        for card in missing:
            self._each(self.found("accelerator_", f'id="id{card}"'), lambda values: gone(first(values)))
        self.tells(restarted(CARDS - len(missing)), "telemetry_pci_devices")
        for name in self.found("devices_expected"):
            del self.series[name]
        return self.tells(then(3, f"stale _ {60 * TURN}x{END}"), "remembers_since")

    def clock(self, after: str) -> Node:
        """The node's clock goes right until the turn, and then so."""
        return self.tells(f"0+60x{TURN - 1} {after}", "telemetry_time_seconds")

    def without_cards(self) -> Node:
        """Nobody says anything of the cards from the turn on."""
        self._each(self.found("accelerator_"), lambda values: gone(first(values)))
        return self.tells(gone(CARDS), "telemetry_devices{")

    def failing(self, state: str) -> Node:
        """The source of the cards does not work from the turn on."""
        self.without_cards()
        self.tells(then(1, f"0x{END}"), "source_up").tells(then(1, f"0x{END}"), "source_poll_up")
        self.tells(then(1, f"0x{END}"), 'state="ok"').tells(then(0, f"1x{END}"), f'state="{state}"')
        return self.tells(then(0.4, f"10x{END}"), "duration_seconds")

    def lost(self, card: int) -> Node:
        """One card falls off the bus."""
        names = self.found("accelerator_", f'id="id{card}"')
        self._each(names, lambda values: gone(first(values)))
        self.tells(then(CARDS, f"{CARDS - 1}x{END}"), "telemetry_devices{")
        self.tells(steady(1), "accelerator_info", f'id="id{card}"')
        return self.tells(then(1, f"0x{END}"), "accelerator_up", f'id="id{card}"')

    def _each(self, names: list[str], change: Callable[[str], str]) -> Node:
        for name in names:
            self.series[name] = change(self.series[name])
        return self


def first(values: str) -> float:
    """The first value of a series."""
    match = re.match(r"-?[\d.e+]+?(?=[x+ ]|$)", values)
    assert match is not None, values
    return float(match[0])


def all_of(*nodes: Node) -> Series:
    """The series of these nodes, none of which is told twice."""
    series: Series = {}
    for node in nodes:
        assert not series.keys() & node.series.keys()
        series |= node.series
    return series
