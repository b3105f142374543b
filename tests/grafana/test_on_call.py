"""A healthy node fires no alert, whatever happens to its daemon, and one trouble fires one alert.

Events fire until the repair, whatever happens to the daemon and the clock meanwhile.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest

from grafana.alert_nodes import END, TURN, Node, counting_again, gone, steady, then
from grafana.scenes import ALWAYS, AROUND_A_RESTART, QUIET, Scene, assert_fires

pytestmark = pytest.mark.needs("promtool")


def hot_card() -> Node:
    node = Node().reports(then(66, f"112x{END}"), "temperature_celsius", 'sensor="junction"', 'id="id3"')
    node.reports(then(0, f"1x{END}"), "throttled", "thermal", 'id="id3"')
    return node.reports(steady(110), "slowdown", "junction", 'id="id3"')


DOWN = {"TelemetryDown": 1, "TelemetryStillDown": 1}
# Two times out of three.
FLAPPING = then(1, " ".join(["0 0 1"] * (END // 3)))


def with_another_card(node: Node, minute: int) -> Node:
    """Add a card that is new from that minute on."""
    for metric in ("accelerator_up", "accelerator_info"):
        name = node.found(metric, 'id="id2"')[0]
        node.series[name.replace('"id2"', '"id4"').replace('"2"', '"4"')] = f"_x{minute} 1x{END}"
    return node


def forgotten(node: Node) -> Node:
    """A card is lost, and an operator runs `telemetry forget` ten minutes later."""
    node.lost(3).reports(then(1, "0x9 stale"), "accelerator_up", 'id="id3"')
    node.reports("1x39 stale", "accelerator_info", 'id="id3"').reports(then(4, f"3x{END}"), "telemetry_pci_devices")
    for name in node.found("devices_expected"):
        del node.series[name]
    return node


def without_limits(node: Node) -> Node:
    for name in node.found("slowdown"):
        del node.series[name]
    return node


def clustered(name: str) -> Node:
    return Node(target={"cluster": name, "job": "accelerators"})


def replica(name: str) -> Node:
    return Node(target={"replica": name, "job": "accelerators"})


def never_had(node: Node, card: int) -> Node:
    """The card is on the bus, but no source ever reported it."""
    for name in node.found("accelerator_", f'id="id{card}"'):
        del node.series[name]
    return node


def of_one_vendor(vendor: str) -> Node:
    """Return a pod that reads the cards of one vendor, with cards of another vendor on the bus."""
    node = Node(target={"job": f"accelerators-{vendor}"})
    node.series = {
        name.replace('vendor="v"', f'vendor="{vendor}"'): values
        for name, values in node.series.items()
        if "expected" not in name
    }
    other = {"a": "b", "b": "a"}[vendor]
    bus = node.found("telemetry_pci_devices")[0]
    node.series[bus.replace(f'vendor="{vendor}"', f'vendor="{other}"')] = steady(4)
    return node


def links_down() -> Node:
    """All links of a switch to which all cards are connected go down."""
    return Node().reports(then(1, f"0x{END}"), "link_up")


def released() -> Node:
    node = Node().without_cards()
    node.reports(then(0, f"1x{END}"), "source_state", 'state="released"')
    return node.reports(gone(1), "poll_up")


def repartitioned() -> Node:
    """Two partitions of a card are replaced by one."""
    node = Node()
    for name in node.found("accelerator_", 'id="id3"'):
        if name.startswith(("accelerator_up", "accelerator_memory_total")):
            for number in "01":
                part = name.replace('"id3"', f'"id3/{number}"').replace('"3"', f'"3:{number}"')
                node.series[part] = gone(1)
            node.series[part.replace("id3/1", "id3/all")] = f"_x{TURN} 1x{END}"
    return node


def lost_with_its_partitions() -> Node:
    node = Node()
    for metric in ("accelerator_up", "accelerator_info"):
        card = node.found(metric, 'id="id3"')[0]
        for number in range(7):
            part = card.replace('"id3"', f'"id3/{number}"').replace('"3"', f'"3:{number}"')
            part = part.replace("_info{", '_info{parent="id3",')
            node.series[part] = then(1, f"0x{END}") if metric == "accelerator_up" else steady(1)
    return node.lost(3)


def event(code: str, cards: Iterable[int] = (3,), node: Node | None = None, until: str = f"1x{END}") -> Node:
    """These cards have an event at the turn, whose later values are `until`."""
    node = node or Node()
    for card in cards:
        (up,) = node.found("accelerator_up", f'id="id{card}"')
        for metric in ("accelerator_event_open", "accelerator_events_total"):
            node.series[up.replace("accelerator_up{", f'{metric}{{code="{code}",')] = f"_x{TURN} {until}"
    return node


def off_the_bus(*cards: int) -> Node:
    node = Node()
    for card in cards:
        node.lost(card)
    return event("xid_79", cards, node)


def event_before_a_restart(code: str) -> Node:
    """The event comes 20 minutes before a restart of the daemon, which restores it."""
    node = Node().restarted()
    event(code, node=node)
    for name in node.found(f'code="{code}"'):
        again = 1 if "event_open" in name else 0
        node.series[name] = f"_x10 1x{TURN - 12} stale _ {again}x{END}"
    return node


def quiet(*nodes: Node, is_full: bool = False) -> Scene:
    return Scene(nodes, {}, ALWAYS, is_full)


def fires(alert: str, *nodes: Node) -> Scene:
    return Scene(nodes, {alert: 1})


def scenes() -> dict[str, Scene]:
    return {
        "all is well": quiet(Node(), is_full=True),
        "the daemon is restarted": quiet(Node().restarted(), is_full=True),
        "the driver is reloaded": quiet(
            Node().reports(counting_again(58), "busy_seconds").reports(counting_again(1), "pcie_replays"), is_full=True
        ),
        "the cards are released": quiet(released()),
        "a card is repartitioned": quiet(repartitioned()),
        "cards that report no limit": quiet(without_limits(Node())),
        "a junction as hot as they get, without a limit": quiet(
            without_limits(Node().reports(steady(94), "temperature_celsius", "junction"))
        ),
        "two clusters with nodes of the same name": quiet(clustered("a"), clustered("b")),
        "two agents that send the same of a node with a card less than expected": Scene(
            (never_had(replica("a"), 3), never_had(replica("b"), 3)),
            {"AcceleratorsFewerThanExpected": 2, "AcceleratorNotListed": 2},
        ),
        "a pod for each vendor": quiet(of_one_vendor("a"), of_one_vendor("b")),
        "one of two nodes dies": Scene((Node().dead(), Node("node2:19820")), DOWN),
        "the agent of one of two clusters dies": Scene(
            (clustered("a").unscraped(), clustered("b")), {"TelemetryAbsent": 1}, (50, 62)
        ),
        "a node comes and goes": Scene((Node().answering(FLAPPING),), DOWN),
        "the driver hangs": fires("TelemetrySourceStuck", Node().failing("stuck")),
        "the driver is gone": Scene(
            (Node().failing("failed").reports(steady(2), "telemetry_source_problems"),),
            {"TelemetrySourceFailing": 1, "AcceleratorsFewerThanExpected": 1, "AcceleratorNotListed": 1},
        ),
        "a card is lost with its partitions": fires("AcceleratorLost", lost_with_its_partitions()),
        "a card goes for two minutes and comes back for two": Scene(
            (Node().reports(then(1, " ".join(["0 0 1 1"] * 9)), "accelerator_up", 'id="id3"'),),
            {"AcceleratorFlapping": 1},
            tuple(range(40, 63)),
        ),
        "a card is swapped, and the old one forgotten": Scene(
            (with_another_card(forgotten(Node()), 35),), QUIET, (29, 45, 62)
        ),
        "a card is lost together with the daemon's memory": Scene(
            (Node().reimaged(3),), {"AcceleratorsFewerThanBefore": 1}, (50, 62)
        ),
        "a card is lost, and the daemon restarted": Scene(
            (Node().lost(3).restarted().reports(f"0x{TURN - 1} stale _ 0x{END}", "accelerator_up", "id3"),),
            {"AcceleratorLost": 1},
            AROUND_A_RESTART,
        ),
        "one card is hot": Scene(
            (hot_card(),),
            {
                "AcceleratorHot": 1,
                "AcceleratorTemperatureCritical": 1,
                "AcceleratorHotterThanPeers": 1,
                "AcceleratorThermalThrottling": 1,
            },
        ),
        "all links of a node are down": Scene((links_down(),), {"AcceleratorLinkDown": 4}),
        "an event before a restart of the daemon": Scene(
            (event_before_a_restart("xid_48"),), {"AcceleratorEventCritical": 1}, (12, *AROUND_A_RESTART)
        ),
        "all cards fall off the bus": Scene(
            (off_the_bus(0, 1, 2, 3),), {"AcceleratorEventCritical": 4, "AcceleratorLost": 4}
        ),
    }


# Each kind of trouble of a node, its daemon and its cards; the other scenes are variations.
QUICK = (
    "all is well",
    "the daemon is restarted",
    "a card is repartitioned",
    "two agents that send the same of a node with a card less than expected",
    "one of two nodes dies",
    "the driver is gone",
    "a card is lost with its partitions",
    "a card is lost together with the daemon's memory",
    "one card is hot",
    "all links of a node are down",
    "an event before a restart of the daemon",
    "all cards fall off the bus",
)


def test_exactly_the_expected_alerts_fire(tmp_path: Path) -> None:
    every = scenes()
    assert_fires(tmp_path, {name: every[name] for name in QUICK})


@pytest.mark.long
def test_exactly_the_expected_alerts_fire_in_variations(tmp_path: Path) -> None:
    assert_fires(tmp_path, {name: scene for name, scene in scenes().items() if name not in QUICK})
