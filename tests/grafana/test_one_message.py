"""Grafana's own alerting has no inhibition: its rules themselves tell one trouble of a card once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from grafana.alert_nodes import END, Node, all_of, steady, then
from grafana.promtool import RECORDING, Group, Question, Story, assert_told, groups_of
from grafana.test_on_call_events import event
from telemetry_grafana.rules import grafana
from telemetry_grafana.rules.catalogue import ALERTS

pytestmark = pytest.mark.needs("promtool")

FIRING = 'count by (alertname, id) (ALERTS{alertstate="firing"})'
EVENT, LOST = "AcceleratorEventCritical", "AcceleratorLost"
HOT, CRITICAL, THROTTLED, PEERS = (
    f"Accelerator{name}" for name in ("Hot", "TemperatureCritical", "ThermalThrottling", "HotterThanPeers")
)


@dataclass(frozen=True)
class Scene:
    """A node, and the one alert of its card that fires at each of these minutes."""

    node: Node
    firing: Mapping[int, str]


def heated(degrees: str, throttled: str = f"0x{END}") -> Node:
    """A card that is to slow down at 110 degrees, and switches itself off a little above."""
    node = (
        Node().tells(steady(110), "slowdown", 'id="id3"').tells(degrees, "temperature_celsius", "junction", 'id="id3"')
    )
    slowdown = node.found("slowdown", 'id="id3"')[0]
    node.series[slowdown.replace("slowdown", "critical")] = steady(112)
    return node.tells(throttled, "throttled", "thermal", 'id="id3"')


def fallen(code: str) -> Node:
    return event(code, node=Node().lost(3))


def with_wrong_data(code: str) -> Node:
    return event(code, node=Node().tells(then(0, f"2x{END}"), "ecc_uncorrected", "dram", 'id="id3"'))


SCENES = {
    "a card falls off the bus": Scene(fallen("xid_79"), dict.fromkeys((31, 33, 40, 62), EVENT)),
    "a card's memory holds wrong data": Scene(with_wrong_data("xid_48"), dict.fromkeys((31, 33, 40, 62), EVENT)),
    "an application fails on a card that falls off the bus": Scene(fallen("xid_31"), {40: LOST, 62: LOST}),
    "a card is critically hot": Scene(
        heated(then(66, f"113x{END}"), then(0, f"1x{END}")), {45: CRITICAL, 62: CRITICAL}
    ),
    "a card is hot and slows down": Scene(
        heated(then(66, f"109x{END}"), then(0, f"1x{END}")), {45: THROTTLED, 62: THROTTLED}
    ),
    "a card is hot": Scene(heated(then(66, f"109x{END}")), {45: HOT, 62: HOT}),
    "a card is hotter than its peers": Scene(heated(then(66, f"95x{END}")), {62: PEERS}),
    # Two minutes of three it is not critical: that alert never fires, and holds nothing back.
    "a card is critically hot for moments": Scene(heated(then(66, " ".join(["113 109 109"] * 12))), {45: HOT, 62: HOT}),
    "a card cools down a little": Scene(heated(then(66, f"113x9 109x{END}")), {38: CRITICAL, 62: HOT}),
}


def of_grafana() -> list[Group]:
    """Grafana's rules in the words of Prometheus: one fires on every answer of its query."""
    return [
        {
            "name": group["name"],
            "interval": group["interval"],
            "rules": [
                {"alert": rule["title"], "expr": rule["data"][0]["model"]["expr"], "for": rule["for"]}
                for rule in group["rules"]
            ],
        }
        for group in yaml.safe_load(grafana.rules())["groups"]
    ]


def test_one_trouble_of_a_card_is_one_alert(tmp_path: Path) -> None:
    stories = [
        Story(
            all_of(scene.node),
            [
                Question(FIRING, f"{minute}m", {f'{{alertname="{alert}", id="id3"}}': 1})
                for minute, alert in scene.firing.items()
            ],
            name,
        )
        for name, scene in SCENES.items()
    ]
    assert_told(tmp_path, [*groups_of(RECORDING), *of_grafana()], stories)


def test_who_holds_back_is_an_alert_of_a_card_that_is_held_for_a_shorter_time() -> None:
    """Else the weaker one would have been told before."""
    by_name = {alert.name: alert for group in ALERTS for alert in group.alerts}
    for alert in by_name.values():
        for stronger in (by_name[name] for name in alert.held_back_by):
            assert "{device}" in alert.summary
            assert "{device}" in stronger.summary
            assert int(stronger.hold[:-1]) < int(alert.hold[:-1])
