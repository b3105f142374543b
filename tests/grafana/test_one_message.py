"""Grafana's alerting has no inhibition, so its rules must fire only once for each trouble of a card."""

from pathlib import Path

import pytest
import yaml

from grafana.alert_nodes import END, Node, steady, then
from grafana.promtool import RECORDING, Group, groups_of, needed_of
from grafana.scenes import assert_firing
from grafana.test_on_call import event
from telemetry_grafana import outputs
from telemetry_grafana.outputs import ALERTS

pytestmark = pytest.mark.needs("promtool")

EVENT, LOST = "AcceleratorEventCritical", "AcceleratorLost"
HOT, CRITICAL, THROTTLED, PEERS = (
    f"Accelerator{name}" for name in ("Hot", "TemperatureCritical", "ThermalThrottling", "HotterThanPeers")
)


def heated(degrees: str, throttled: str = f"0x{END}") -> Node:
    """A card with a slowdown limit of 110 degrees and a shutdown limit slightly above."""
    node = (
        Node()
        .reports(steady(110), "slowdown", 'id="id3"')
        .reports(degrees, "temperature_celsius", "junction", 'id="id3"')
    )
    slowdown = node.found("slowdown", 'id="id3"')[0]
    node.series[slowdown.replace("slowdown", "critical")] = steady(112)
    return node.reports(throttled, "throttled", "thermal", 'id="id3"')


def fallen(code: str) -> Node:
    return event(code, node=Node().lost(3))


def with_wrong_data(code: str) -> Node:
    return event(code, node=Node().reports(then(0, f"2x{END}"), "ecc_uncorrected", "dram", 'id="id3"'))


def scenes() -> dict[str, tuple[Node, dict[int, str]]]:
    """Return nodes, and the only alert of their card that fires at each of these minutes."""
    return {
        "a card falls off the bus": (fallen("xid_79"), dict.fromkeys((31, 33, 40, 62), EVENT)),
        "a card's memory holds wrong data": (with_wrong_data("xid_48"), dict.fromkeys((31, 33, 40, 62), EVENT)),
        "an application fails on a card that falls off the bus": (fallen("xid_31"), {40: LOST, 62: LOST}),
        "a card is critically hot": (
            heated(then(66, f"113x{END}"), then(0, f"1x{END}")),
            {45: CRITICAL, 62: CRITICAL},
        ),
        "a card is hot and slows down": (
            heated(then(66, f"109x{END}"), then(0, f"1x{END}")),
            {45: THROTTLED, 62: THROTTLED},
        ),
        "a card is hot": (heated(then(66, f"109x{END}")), {45: HOT, 62: HOT}),
        "a card is hotter than its peers": (heated(then(66, f"95x{END}")), {62: PEERS}),
        # It is critical only one minute of three: that alert never fires, and inhibits nothing.
        "a card is critically hot for moments": (
            heated(then(66, " ".join(["113 109 109"] * 12))),
            {45: HOT, 62: HOT},
        ),
        "a card cools down a little": (heated(then(66, f"113x9 109x{END}")), {38: CRITICAL, 62: HOT}),
    }


def of_grafana() -> list[Group]:
    """Return Grafana's rules as rules of Prometheus, which fire for every result of the query."""
    return [
        {
            "name": group["name"],
            "interval": group["interval"],
            "rules": [
                {"alert": rule["title"], "expr": rule["data"][0]["model"]["expr"], "for": rule["for"]}
                for rule in group["rules"]
            ],
        }
        for group in yaml.safe_load(outputs.grafana_rules())["groups"]
    ]


def test_one_trouble_of_a_card_is_one_alert(tmp_path: Path) -> None:
    alerts = [alert for group in ALERTS for alert in group.alerts if alert.inhibited_by or alert.inhibited_by_event]
    names = {EVENT, *(name for alert in alerts for name in (alert.name, *alert.inhibited_by))}
    rules = needed_of([*groups_of(RECORDING), *of_grafana()], names)
    series = {
        name: {key: node.series[key] for key in node.found("accelerator_")} for name, (node, _) in scenes().items()
    }
    firing = {name: {minute: {alert: 1} for minute, alert in alerts.items()} for name, (_, alerts) in scenes().items()}
    assert_firing(tmp_path, series, firing, rules, "2m")


def test_inhibiting_alert_fires_earlier_than_the_inhibited_one() -> None:
    """Otherwise the weaker alert would be sent first."""
    by_name = {alert.name: alert for group in ALERTS for alert in group.alerts}
    for alert in by_name.values():
        for stronger in (by_name[name] for name in alert.inhibited_by):
            assert "{device}" in alert.summary
            assert "{instance}" in stronger.summary
            assert int(stronger.pending_period[:-1]) < int(alert.pending_period[:-1])
