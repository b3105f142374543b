"""The shipped Alertmanager configuration in a real Alertmanager: each trouble is one message."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from kits.captures import ROOT
from kits.prometheus import Alertmanager, Messages
from kits.waiting import until
from telemetry_grafana.outputs import ALERTS

CONFIG = ROOT / "deploy" / "alertmanager" / "alertmanager.yml"
SEVERITY = {alert.name: alert.severity for group in ALERTS for alert in group.alerts}
NODE = {"cluster": "c", "job": "accelerators", "instance": "node1"}
VENDOR = {**NODE, "vendor": "nvidia"}
CARD = {**VENDOR, "device": "3", "id": "GPU-3"}
OTHER_CARD = {**VENDOR, "device": "4", "id": "GPU-4"}
OTHER_NODE = {**NODE, "instance": "node2"}
OTHER_CLUSTER = {**NODE, "cluster": "d"}

pytestmark = pytest.mark.needs("prometheus-alertmanager")


def alert(name: str, labels: Mapping[str, str] = NODE, severity: str = "") -> dict[str, str]:
    return {"alertname": name, "severity": severity or SEVERITY[name], **labels}


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Alertmanager]:
    with Alertmanager(tmp_path, CONFIG) as server:
        until(lambda: server.get("/api/v2/status"), "an Alertmanager")
        yield server


PLACES = {
    "": NODE,
    "other node": OTHER_NODE,
    "other cluster": OTHER_CLUSTER,
    "vendor": VENDOR,
    "card": CARD,
    "other card": OTHER_CARD,
}
# The firing alerts with location and code, and the messages sent.
HELD_BACK = {
    "a dead node with its remembered errors": (
        "TelemetryDown; AcceleratorUncorrectedErrors, card; TelemetryRestarting",
        "TelemetryDown",
    ),
    "a hot card": (
        "AcceleratorHot, card; AcceleratorTemperatureCritical, card; AcceleratorThermalThrottling, card",
        "AcceleratorTemperatureCritical",
    ),
    "a driver that is gone": (
        "TelemetrySourceFailing; AcceleratorsFewerThanExpected, vendor; AcceleratorNotListed, vendor",
        "TelemetrySourceFailing AcceleratorsFewerThanExpected",
    ),
    "a card that fell off the bus": (
        "AcceleratorEventCritical, card, xid_79; AcceleratorLost, card; AcceleratorEvent, card, xid_140",
        "AcceleratorEventCritical",
    ),
    "a card that comes and goes": (
        "AcceleratorFlapping, card; AcceleratorEventCritical, card, xid_79; AcceleratorLinkFlapping, card",
        "AcceleratorFlapping",
    ),
    "a card that is lost after an event of another kind, or another one": (
        "AcceleratorEventCritical, card, xid_48; AcceleratorEventCritical, other card, xid_79; AcceleratorLost, card",
        "AcceleratorEventCritical AcceleratorLost",
    ),
    "a card that is missing, and a job that hangs on the others": (
        "AcceleratorsFewerThanExpected, vendor; AcceleratorNotListed, vendor; AcceleratorsHung, vendor",
        "AcceleratorsFewerThanExpected AcceleratorsHung",
    ),
    "a node of that name in another cluster": (
        "TelemetryDown; TelemetrySourceFailing, other cluster",
        "TelemetryDown TelemetrySourceFailing",
    ),
    "a node that stays down": ("TelemetryDown; TelemetryStillDown; AcceleratorLost, card", "TelemetryStillDown"),
    "a node whose cooling fails": (
        "AcceleratorsHot, vendor; AcceleratorHot, card; AcceleratorThermalThrottling, other card; TelemetryRestarting",
        "AcceleratorsHot TelemetryRestarting",
    ),
    "a job that hangs": ("AcceleratorJobHangs, card; AcceleratorAllocatedIdle, card", "AcceleratorJobHangs"),
    "somebody else's alert": ("TelemetryDown; DiskFull", "TelemetryDown DiskFull"),
}


def alerts_of(text: str, job: str) -> Iterator[dict[str, str]]:
    for part in text.split("; "):
        name, subject, code = (*part.split(", "), "", "")[:3]
        labels = {**PLACES[subject], **({"code": code} if code else {}), "job": job}
        yield alert(name, labels, SEVERITY.get(name, "warning"))


def test_one_trouble_is_one_message(manager: Alertmanager) -> None:
    def names(why: str = "") -> set[str]:
        return {labels["alertname"] for labels in manager.uninhibited() if why in ("", labels.get("job"))}

    wanted = {why: set(names.split()) for why, (_, names) in HELD_BACK.items()}
    for why, (alerts, _) in HELD_BACK.items():
        manager.send(list(alerts_of(alerts, why)))
    # All at once, because an alert inhibits others only a moment after it has arrived.
    until(lambda: {why: names(why) for why in wanted} == wanted, "that one trouble is one message")
    manager.send([alert("TelemetryAbsent", {})])
    until(lambda: "TelemetryDown" not in names(), "nodes of an absent cluster")
    assert "TelemetryAbsent" in names()


def test_eight_cards_that_fall_off_the_bus_are_one_message_that_names_them(tmp_path: Path) -> None:
    """A ninth card is another message. The loss of these cards, minutes later, is none."""
    cards = [{**VENDOR, "device": str(n), "id": f"GPU-{n}"} for n in range(9)]
    fallen = [alert("AcceleratorEventCritical", {**card, "code": "xid_79"}) for card in cards]
    with Messages() as messages:
        urls = dict.fromkeys(("device-telemetry", "device-telemetry-info"), messages.url)
        with Alertmanager(tmp_path, delivering(tmp_path, urls)) as manager:
            until(lambda: manager.get("/api/v2/status"), "an Alertmanager")
            manager.send(fallen[:8])
            until(lambda: messages.of("AcceleratorEventCritical"), "the message")
            manager.send([*fallen, *(alert("AcceleratorLost", card) for card in cards)])
            until(lambda: len(messages.of("AcceleratorEventCritical")) == 2, "that another card has fallen")
            manager.send([alert("TelemetryRestarting", OTHER_NODE)])
            until(lambda: messages.of("TelemetryRestarting"), "what came last")
    ids = [sorted(labels["id"] for labels in message) for message in messages.of("AcceleratorEventCritical")]
    assert ids == [[f"GPU-{n}" for n in range(8)], [f"GPU-{n}" for n in range(9)]]
    assert messages.of("AcceleratorLost") == []


def test_stronger_alert_of_a_card_inhibits_the_weaker_ones(manager: Alertmanager) -> None:
    """It inhibits the alerts that its definition names, on the same card only."""
    weaker = {item.name: item.inhibited_by for group in ALERTS for item in group.alerts if item.inhibited_by}
    pairs = [(name, stronger) for name, others in weaker.items() for stronger in others]
    cards = {pair: {**CARD, "instance": f"node-{number}", "id": f"GPU-{number}"} for number, pair in enumerate(pairs)}
    alerts = [alert(name, cards[pair]) for pair in pairs for name in pair]
    free = [alert(name, {**OTHER_CARD, "id": f"well-{name}"}) for name in weaker]
    manager.send([*alerts, *free])
    wanted = {(stronger, cards[name, stronger]["id"]) for name, stronger in pairs}
    wanted |= {(item["alertname"], item["id"]) for item in free}
    until(
        lambda: {(labels["alertname"], labels["id"]) for labels in manager.uninhibited()} == wanted,
        "that the weaker alerts are held back",
    )


def delivering(tmp_path: Path, urls: Mapping[str, str]) -> Path:
    document = yaml.safe_load(CONFIG.read_text())
    document["route"].update(group_wait="1s", group_interval="1s")
    for receiver in document["receivers"]:
        for webhook in receiver.get("webhook_configs", ()):
            webhook["url"] = urls[receiver["name"]]
    config = tmp_path / "ours.yml"
    config.write_text(yaml.safe_dump(document))
    return config


def test_maintenance_inhibits_without_resolving_and_info_has_its_own_receiver(tmp_path: Path) -> None:
    lost, other = alert("AcceleratorLost", CARD), alert("TelemetryDown", OTHER_NODE)
    with Messages() as pager, Messages() as mailbox:
        urls = {"device-telemetry": pager.url, "device-telemetry-info": mailbox.url}
        with Alertmanager(tmp_path, delivering(tmp_path, urls)) as manager:
            until(lambda: manager.get("/api/v2/status"), "an Alertmanager")
            manager.send([lost, alert("AcceleratorAllocatedIdle", CARD | {"instance": "node3"})])
            until(lambda: pager.of("AcceleratorLost") and mailbox.of("AcceleratorAllocatedIdle"), "both messages")
            manager.send([alert("TelemetryMaintenance", NODE)])
            until(lambda: lost not in manager.uninhibited(), "that the lost card is held back")
            manager.send([alert("AcceleratorEventCritical", {**CARD, "code": "xid_74"}), other])
            until(lambda: pager.of("TelemetryDown"), "what came last, from another node")
    assert pager.resolved == []
    assert pager.of("AcceleratorEventCritical") == pager.of("TelemetryMaintenance") == []
    assert mailbox.of("TelemetryMaintenance") == pager.of("AcceleratorAllocatedIdle") == []


def test_many_nodes_are_one_message() -> None:
    contact = ROOT / "grafana" / "provisioning" / "alerting" / "telemetry-contact.yaml"
    groups = [
        yaml.safe_load(CONFIG.read_text())["route"]["group_by"],
        yaml.safe_load(contact.read_text())["policies"][0]["group_by"],
    ]
    assert groups == [["alertname", "cluster", "job"]] * 2
