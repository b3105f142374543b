"""The scrape configurations for fleets: promtool accepts each, and a real Prometheus scrapes as configured."""

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.placed_configs import (
    AGENTS,
    FOLDER,
    NAMES,
    Placed,
    inventory,
    many_addresses,
    without_kubernetes,
)
from kits.daemon import Daemon
from kits.prometheus import ConfiguredPrometheus, tool
from kits.waiting import until
from kits.web_server import cheap_hash, make_pki

pytestmark = pytest.mark.needs("prometheus", "promtool")

TARGETS = 12
RECEIVER = ("--web.enable-remote-write-receiver",)
PASSWORD = "correct horse"
POD = {"__meta_kubernetes_pod_phase": "Running", "__meta_kubernetes_pod_container_port_name": "metrics"}


@dataclass(frozen=True)
class Fleet:
    """Every configuration at work over the same simulated node, which has many addresses."""

    addresses: list[str]
    secure_address: str
    servers: dict[str, ConfiguredPrometheus]

    def __getitem__(self, name: str) -> ConfiguredPrometheus:
        return self.servers[name]

    def up(self, name: str) -> list[dict[str, str]]:
        found = (self[name].ask('query?query=up{job=~"accelerators.*"}==1') or {}).get("result", [])
        return [item["metric"] for item in found]

    def instances(self, name: str) -> list[str]:
        return sorted(labels["instance"] for labels in self.up(name))

    def active(self, name: str) -> list[dict[str, Any]]:
        return (self[name].ask("targets?state=active") or {}).get("activeTargets", [])


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Start all at once: each needs some seconds until it has scraped and sent."""
    folder = tmp_path_factory.mktemp("fleet")
    with contextlib.ExitStack() as stack:
        addresses = stack.enter_context(many_addresses(folder / "node", TARGETS))
        secure = stack.enter_context(secure_node(folder))
        servers: dict[str, ConfiguredPrometheus] = {}

        def start(name: str, config: Path, *flags: str) -> str:
            servers[name] = stack.enter_context(ConfiguredPrometheus(config, flags=flags))
            return servers[name].address

        def placed(name: str, *groups: dict[str, object]) -> Placed:
            return Placed(folder / name, groups)

        first_target, all_of_them = {"targets": addresses[:1], "labels": {"rack": "a1"}}, {"targets": addresses}
        start("file-sd", placed("file-sd", first_target, {"targets": ["127.77.0.1"]}).config("file-sd.yml"))
        asked = stack.enter_context(inventory(folder / "inventory", [first_target, {"targets": ["127.77.0.1"]}]))
        change = ("http://inventory.example.com", f"http://{asked}")
        start("http-sd", placed("http-sd").config("http-sd.yml", change))
        kubernetes = placed("kubernetes-sd", *pods(addresses[0])).config("kubernetes-sd.yml")
        kubernetes.write_text(without_kubernetes(kubernetes.read_text()))
        start("kubernetes-sd", kubernetes)
        start(
            "tls",
            with_secrets(placed("tls", {"targets": [secure]}), (folder / "authority.crt").read_bytes()).config(
                "tls.yml"
            ),
        )
        store = start("central of shards", placed("central of shards").config("central.yml"), *RECEIVER)
        for number in "01":
            line = ('shard: &shard "0"', f'shard: &shard "{number}"')
            config = placed(f"shard {number}", all_of_them).storing_at("shard.yml", store, line)
            start(f"shard {number}", config)
        yield Fleet(addresses, secure, servers)


@contextlib.contextmanager
def secure_node(folder: Path) -> Iterator[str]:
    """Return a simulated node with TLS and a password; its certificate's authority is in the folder."""
    pki = make_pki(folder)
    web = folder / "web.yml"
    web.write_text(pki.tls_section() + f"basic_auth_users:\n  prometheus: {cheap_hash(PASSWORD)}\n")
    (folder / "secure").mkdir()
    with Daemon(folder / "secure", arguments=("--demo", "1xamd", "--web.config.file", str(web))) as daemon:
        yield daemon.address


def with_secrets(placed: Placed, authority: bytes = b"") -> Placed:
    (placed.folder / "tls").mkdir()
    (placed.folder / "tls" / "ca.crt").write_bytes(authority)
    (placed.folder / "tls" / "password").write_text(PASSWORD)
    return placed


def pods(address: str) -> list[dict[str, object]]:
    """Return Kubernetes' data on three pods: ours, another port of it, and one that has ended."""
    labels = ({}, {"__meta_kubernetes_pod_container_port_name": "debug"}, {"__meta_kubernetes_pod_phase": "Succeeded"})
    node = {
        "__meta_kubernetes_pod_node_name": "worker7",
        "__meta_kubernetes_pod_label_app_kubernetes_io_component": "nvidia",
    }
    return [{"targets": [address], "labels": {**POD, **node, **more}} for more in labels]


@pytest.mark.parametrize("name", NAMES)
def test_promtool_accepts_the_file(name: str, tmp_path: Path) -> None:
    placed = Placed(tmp_path / "files", [{"targets": ["node1"]}])
    path = with_secrets(placed).folder / name
    if name == "kubernetes-sd.yml":
        path.write_text(without_kubernetes(path.read_text()))
    flags = ["--agent"] if name in AGENTS else []
    done = subprocess.run([tool("promtool"), "check", "config", *flags, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["file-sd", "http-sd"])
def test_nodes_of_a_file_and_of_an_inventory_are_scraped_with_its_labels(fleet: Fleet, name: str) -> None:
    """The nodes have job, instance and the list's labels; a target without a port gets ours."""
    node = fleet.addresses[0]
    (labels,) = until(lambda: fleet.up(name), "the node is up")
    assert labels == {"__name__": "up", "job": "accelerators", "instance": node, "rack": "a1"}
    assert {target["scrapeUrl"] for target in fleet.active(name)} == {
        f"http://{node}/metrics",
        "http://127.77.0.1:19820/metrics",
    }


def test_rules_are_loaded_and_keep_the_labels(fleet: Fleet) -> None:
    query = "query?query=instance:accelerator_power_watts:sum"
    (item,) = fleet["file-sd"].wait(query, "result")
    assert item["metric"].items() >= {"job": "accelerators", "instance": fleet.addresses[0], "vendor": "nvidia"}.items()
    rules = [rule for group in fleet["file-sd"].wait("rules", "groups") for rule in group["rules"]]
    assert len({rule["type"] for rule in rules}) == 2
    assert [rule for rule in rules if rule["health"] == "err"] == []


def test_running_pods_are_scraped_under_their_nodes_name(fleet: Fleet) -> None:
    """The port `metrics` of running pods, with their node's name and the job of their cards."""
    until(lambda: fleet.up("kubernetes-sd"), "the pod is up")
    (target,) = fleet.active("kubernetes-sd")
    assert target["labels"] == {"job": "accelerators-nvidia", "instance": "worker7"}
    assert target["scrapeUrl"] == f"http://{fleet.addresses[0]}/metrics"


def test_nodes_with_tls_and_a_password(fleet: Fleet) -> None:
    until(lambda: fleet.instances("tls") == [fleet.secure_address], f"the node is up: {fleet.active('tls')}")


def test_each_target_has_one_shard(fleet: Fleet) -> None:
    """Together the shards have the results of a single Prometheus, and rules are evaluated on all of them."""
    shares = until(
        lambda: (found := [fleet.instances(f"shard {n}") for n in "01"]) and sum(map(len, found)) == TARGETS and found,
        "all nodes are up",
    )
    assert all(shares)
    assert sorted(shares[0] + shares[1]) == sorted(fleet.addresses)
    until(lambda: fleet.instances("central of shards") == sorted(fleet.addresses), "all nodes are in the store")
    assert {tuple(sorted(labels)) for labels in fleet.up("central of shards")} == {
        ("__name__", "cluster", "instance", "job")
    }
    query = "query?query=count(instance:accelerator_power_watts:sum)"
    assert until(
        lambda: [item["value"][1] for item in fleet["central of shards"].wait(query, "result")] == [str(TARGETS)],
        "the rules see all nodes",
    )


def series_of(daemon: Daemon) -> list[str]:
    return [line for line in daemon.page().splitlines() if not line.startswith("#")]


def test_limits_leave_room(fleet: Fleet, tmp_path: Path) -> None:
    """A node of sixteen cards of the richest kind, with owners and steps, stays far below every limit."""
    limits = yaml.safe_load((FOLDER / "file-sd.yml").read_text())["scrape_configs"][0]
    with Daemon(tmp_path, arguments=("--demo", "16xnvidia")) as daemon:
        daemon.until(lambda: len(series_of(daemon)) > 1000)  # slow polls have answered, too
        series = series_of(daemon)
    assert 8 * len(series) < limits["sample_limit"]
    assert 2 * max(line.count('="') for line in series) < limits["label_limit"]
