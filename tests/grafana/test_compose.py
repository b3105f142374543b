"""The compose file: mounted paths exist, targets are services, and promtool accepts the configuration."""

import subprocess
from pathlib import Path

import pytest
import yaml

from kits.captures import ROOT
from telemetry_daemon.simulate.demo import parse_demo

FOLDER = ROOT / "deploy" / "compose"
SERVICES = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
SOURCES = yaml.safe_load((ROOT / "grafana" / "provisioning" / "datasources" / "telemetry.yaml").read_text())
DASHBOARDS = yaml.safe_load((ROOT / "grafana" / "provisioning" / "dashboards" / "telemetry.yaml").read_text())


def mounts(service: str) -> dict[str, Path]:
    pairs = (volume.split(":")[:2] for volume in SERVICES[service].get("volumes", ()))
    return {inside: (FOLDER / outside).resolve() for outside, inside in pairs}


def test_the_simulated_nodes_can_be_simulated_and_are_scraped() -> None:
    nodes = {name: item["command"] for name, item in SERVICES.items() if "command" in item}
    assert len(nodes) == 3
    for command in nodes.values():
        assert parse_demo(command[command.index("--demo") + 1])
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    targets = config["scrape_configs"][0]["static_configs"][0]["targets"]
    assert targets == [f"{name}:19820" for name in nodes]


def test_grafana_finds_its_source_and_its_dashboards() -> None:
    grafana = SERVICES["grafana"]
    assert SOURCES["datasources"][0]["url"] == "${TELEMETRY_PROMETHEUS_URL}"
    assert "TELEMETRY_PROMETHEUS_URL" in grafana["environment"]
    assert mounts("grafana")[DASHBOARDS["providers"][0]["options"]["path"]] == ROOT / "grafana" / "dashboards"


def test_the_alerts_are_evaluated_once() -> None:
    """Prometheus evaluates them, not Grafana."""
    assert ROOT / "deploy" / "prometheus" / "rules" in mounts("prometheus").values()
    brought = [path for folder in mounts("grafana").values() for path in folder.rglob("*")]
    assert brought
    assert [path for path in brought if "alerting" in path.parts] == []


def test_services_mount_what_is_there_and_listen_on_loopback_only() -> None:
    assert [path for service in SERVICES for path in mounts(service).values() if not path.exists()] == []
    ports = [port for item in SERVICES.values() for port in item.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


@pytest.mark.needs("promtool")
def test_promtool_takes_the_configuration() -> None:
    command = ["promtool", "check", "config", "--syntax-only", str(FOLDER / "prometheus.yml")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
