"""In Kubernetes, Prometheus gets the same rules, dashboards, and the labels that both use."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from kits.captures import ROOT
from kits.daemon import Daemon
from kits.helm_chart import IMAGE, NAME, VALUE_SETS, render
from kits.prometheus import ConfiguredPrometheus
from kits.waiting import until

pytestmark = pytest.mark.needs("helm", "prometheus")

RULES = sorted((ROOT / "deploy" / "prometheus" / "rules").glob("*.yml"))
DASHBOARDS = sorted((ROOT / "grafana" / "dashboards").glob("*.json"))
MONITORED = VALUE_SETS["pods monitored"]


def test_the_rules_are_those_of_the_rule_files() -> None:
    wanted = [group for path in RULES for group in yaml.safe_load(path.read_text())["groups"]]
    assert render(MONITORED).only("PrometheusRule")["spec"] == {"groups": wanted}
    assert any("{{ .Labels.instance }}" in rule.get("annotations", {}).get("summary", "") for rule in all_rules(wanted))


def all_rules(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [rule for group in groups for rule in group["rules"]]


def test_runbook_links_use_the_operators_url() -> None:
    url = "https://wiki.example.com/alerts.md"
    values = {**IMAGE, "prometheusRule": {"enabled": True, "runbooks": url}}
    rules = all_rules(render(values).only("PrometheusRule")["spec"]["groups"])
    links = [rule["annotations"]["runbook_url"] for rule in rules if "alert" in rule]
    assert links
    assert [link for link in links if not re.fullmatch(re.escape(url) + r"#[a-z]+", link)] == []
    assert not any("runbook" in rule.get("annotations", {}) for rule in rules)


def test_the_dashboards_are_those_of_grafana() -> None:
    objects = render(MONITORED)
    for path in DASHBOARDS:
        found = objects.named("ConfigMap", f"{NAME}-{path.stem}")
        assert found["metadata"]["namespace"] == "monitoring"
        assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert json.loads(found["data"][path.name]) == json.loads(path.read_text())
    names = [item["metadata"]["name"] for item in objects.kind("ConfigMap")]
    assert sum("telemetry-telemetry-" in name for name in names) == len(DASHBOARDS)


@pytest.mark.parametrize("kind", ["PodMonitor", "ServiceMonitor"])
def test_instance_label_is_the_node(kind: str, tmp_path: Path) -> None:
    """With the relabelings of the monitor: `instance` is the node, `job` has the pool, and the pod's name is gone."""
    endpoint = endpoint_of(kind)
    with Daemon(tmp_path, arguments=("--demo", "1xnvidia")) as daemon:
        (tmp_path / "targets.json").write_text(json.dumps(pods(daemon.address)))
        config = tmp_path / "prometheus.yml"
        config.write_text(yaml.safe_dump(configuration(endpoint)))
        with ConfiguredPrometheus(config) as prometheus:
            query = "query?query=accelerator_up==1"
            (series, other) = until(lambda: two(prometheus.ask(query)), "both pods of the node are scraped")
    assert {series["job"], other["job"]} == {"accelerators-nvidia", "accelerators-amd"}
    for labels in (series, other):
        assert labels["instance"] == "worker7"
        assert labels["namespace"] == "monitoring"
        assert labels["cluster"] == "blue"
        assert "pod" not in labels


def two(found: Any) -> list[dict[str, str]]:
    results = (found or {}).get("result", [])
    return [item["metric"] for item in results] if len(results) == 2 else []


def endpoint_of(kind: str) -> dict[str, Any]:
    more = [{"targetLabel": "cluster", "replacement": "blue"}]
    monitor = render({**IMAGE, "monitor": {"kind": kind, "relabelings": more}}).only(kind)
    (endpoint,) = monitor["spec"].get("podMetricsEndpoints") or monitor["spec"]["endpoints"]
    return endpoint


def pods(address: str) -> list[dict[str, Any]]:
    """Return targets as the operator configures them for two pods of a node; one daemon answers for both."""
    component = "__meta_kubernetes_pod_label_app_kubernetes_io_component"
    host, _, port = address.rpartition(":")
    return [
        {
            "targets": [f"{host}:{port}"],
            "labels": {
                "__meta_kubernetes_pod_node_name": "worker7",
                component: pool,
                "pod": f"tele-{pool}-x7k2p",
                "namespace": "monitoring",
            },
        }
        for pool in ("nvidia", "amd")
    ]


def configuration(endpoint: dict[str, Any]) -> dict[str, Any]:
    """Return a scrape configuration with the endpoint's relabelings in the spelling of Prometheus."""
    relabelings = [{snake_case(key): value for key, value in step.items()} for step in endpoint["relabelings"]]
    return {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [
            {
                "job_name": "podMonitor/monitoring/tele/0",
                "metrics_path": endpoint["path"],
                "file_sd_configs": [{"files": ["targets.json"]}],
                "relabel_configs": relabelings,
            }
        ],
    }


def snake_case(name: str) -> str:
    return re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", name)
