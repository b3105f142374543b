"""Every fault that a card can show: the page has the condition of the JSON document, and never `ok`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kits.browser import Tab
from page.nodes import Node
from page.view import View

pytestmark = pytest.mark.needs("chromium")

Readings = Sequence[tuple[str, str, float | str]]
HOT, LIMIT = 91.0, 87.0
LIMITED: Readings = [
    ("temperature_slowdown_celsius", "core", LIMIT),
    ("temperature_margin_celsius", "", "not_supported"),
]
# The readings of the card: metric, label, value.
FAULTS: Mapping[str, Readings] = {
    "asks for a reset": [("recovery_action", "none", 0), ("recovery_action", "reset", 1)],
    "health alarm": [("health", "alarm", 1)],
    "health warning": [("health", "warning", 1)],
    "uncorrected error": [("ecc_uncorrected_total", "dram", 3)],
    "row waits for a reset": [("row_remap_pending", "", 1)],
    "row could not be replaced": [("row_remap_failed", "", 1)],
    "link down": [("link_up", str(link), link != 3) for link in range(18)],
    "over its limit": [("temperature_celsius", "core", HOT), *LIMITED],
    "close to its limit": [("temperature_celsius", "core", LIMIT - 3), *LIMITED],
    "over its limit by its own margin": [("temperature_margin_celsius", "", -4)],
    "throttled by heat": [("throttled", "sw_thermal", 1)],
    "power brake": [("throttled", "hw_power_brake", 1)],
    "at its power cap": [("throttled", "sw_power_cap", 1), ("power_watts", "", 700), ("power_cap_watts", "", 700)],
    "asleep": [("suspended", "", 1)],
}
# Readings of a cool card, which cause no other condition.
QUIET = {"at its power cap", "asleep"}
EVENT, LOST, WELL = len(FAULTS), len(FAULTS) + 1, len(FAULTS) + 2
COOL: Readings = [("temperature_celsius", "core", 55), ("power_watts", "", 300), ("throttled", "sw_thermal", 0)]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """Return a node with a card for each fault, a card with an Xid, a card that gets lost, and a healthy one."""
    node = Node(tmp_path, f"{len(FAULTS) + 3}xnvidia")
    readings = []
    for card, faulty in enumerate([*FAULTS.values(), (), (), ()]):
        metrics = {metric for metric, *_ in faulty}
        calm = [reading for reading in COOL if reading[0] not in metrics]
        readings += [[card, metric, label, value] for metric, label, value in (*faulty, *calm)]
    node.set_stage(readings=readings, once=[["xid_79", [EVENT]]])
    return node


def conditions(document: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    return {
        device["id"]: (device["condition"]["word"], device["condition"]["severity"]) for device in document["devices"]
    }


def test_page_shows_the_conditions_of_the_document_and_no_fault_as_ok(tab: Tab, node: Node) -> None:
    with node.daemon() as daemon:
        daemon.until(lambda: all(word for word, _ in conditions(daemon.document()).values()))
        node.set_stage(lasting=[["lost", [LOST]]])
        daemon.until(lambda: "lost" in [word for word, _ in conditions(daemon.document()).values()])
        view = View(tab)
        tab.open(node.url)
        view.await_live()
        tab.until(lambda: view.conditions() == conditions(daemon.document()), "the conditions of the document")
        devices = daemon.document()["devices"]
        found = {
            fault: conditions(daemon.document())[devices[card]["id"]] for card, fault in enumerate([*FAULTS, "event"])
        }
        severities = {fault: severity for fault, (_, severity) in found.items()}
        assert [fault for fault, severity in severities.items() if severity == "good"] == []
        assert {fault for fault, severity in severities.items() if severity == "quiet"} == QUIET
        assert conditions(daemon.document())[devices[WELL]["id"]] == ("ok", "good")
        with tab.browser.tab() as plain:
            plain.turn_scripts_off()
            plain.open(node.url)
            assert View(plain).conditions() == conditions(daemon.document())
        node.set_stage(lasting=[["hung tool", []]])
        tab.until(lambda: "ok" not in [word for word, _ in view.conditions().values()], "no card that is well")
        tab.until("document.body.innerText.includes('timeout')", "the source and its reason")


@pytest.mark.long
def test_fault_appears_and_disappears_without_a_reload(tab: Tab, tmp_path: Path) -> None:
    node = Node(tmp_path, "2xnvidia")
    calm = [[card, *reading] for card in (0, 1) for reading in COOL]
    node.set_stage(readings=calm)
    with node.daemon():
        view = View(tab)
        tab.open(node.url)
        view.await_live()
        tab.until(lambda: {word for word, _ in view.conditions().values()} == {"ok"}, "two that are well")
        node.set_stage(readings=[[0, "row_remap_failed", "", 1], *calm])
        tab.until(lambda: sorted(how for _, how in view.conditions().values()) == ["bad", "good"], "one that is not")
        node.set_stage(readings=[[0, "row_remap_failed", "", 0], *calm])
        tab.until(lambda: {word for word, _ in view.conditions().values()} == {"ok"}, "two that are well again")
        assert len(tab.navigations) == 1
