"""The configurations of other agents are valid, and agree with the daemon and with one another."""

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from kits.captures import ROOT
from telemetry_daemon.config.settings import DEFAULT_PORT
from telemetry_parsers.metrics import BY_NAME

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = ROOT / "deploy" / "agents"
UNIT = FOLDER / "telemetry-agent.service"
OUR_UNIT = ROOT / "deploy" / "systemd" / "telemetry.service"
CONFIGS = ("prometheus.yml", "vmagent.yml", "otelcol.yaml", "config.alloy", "telegraf.conf")
MAX_EXPOSURE = "20"  # tenths, as for the daemon's own unit
# Settings of our unit that an agent does not need: accelerators, their groups, and the watchdog.
OURS_ALONE = {
    "DeviceAllow",
    "SupplementaryGroups",
    "User",
    "Group",
    "RuntimeDirectory",
    "RuntimeDirectoryPreserve",
    "KillMode",
}
# Settings with other values for an agent.
OF_ITS_OWN = {"StateDirectory", "MemoryMax", "RestrictAddressFamilies", "OOMPolicy"}


def text(name: str) -> str:
    return (FOLDER / name).read_text()


def settings(unit: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    body = unit.read_text().partition("\n# User")[2].partition("\n[Install]")[0]
    for name, value in re.findall(r"^([A-Za-z]+)=(.*)$", body, flags=re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


@pytest.mark.parametrize("name", CONFIGS)
def test_all_agents_have_the_same_port_job_interval_and_tls(name: str) -> None:
    """Our port, the job of the dashboards, an interval no shorter than the tools', and TLS."""
    content = text(name)
    assert f":{DEFAULT_PORT}" in content + (text("targets/node.yml") if "targets" in content else "")
    assert re.search(r"\baccelerators\b", content)
    assert re.search(r"\b15s\b", content)
    assert re.search(r"cluster\b.*\n?.*example", content)
    assert not name.endswith(("yml", "yaml")) or yaml.safe_load(content)
    if name != "vmagent.yml":
        assert "https://store.example.com" in content
        assert re.search(r'ca(_file)?"?\s*[:=] "?[a-z/-]*tls/ca\.crt', content)


def test_commented_outputs_are_valid_toml() -> None:
    content = text("telegraf.conf")
    active = tomllib.loads(content)
    assert active["inputs"]["prometheus"][0]["urls"] == [f"http://localhost:{DEFAULT_PORT}/metrics"]
    _, first, rest = content.partition("# [[outputs.")
    others = tomllib.loads(re.sub(r"^# (?=\[\[|  |\{\{)", "", first + rest, flags=re.MULTILINE))
    assert set(others["outputs"]) == {"influxdb_v2", "mqtt", "zabbix", "socket_writer"}


def test_the_collector_uses_what_it_declares() -> None:
    document = yaml.safe_load(text("otelcol.yaml"))
    pipeline = document["service"]["pipelines"]["metrics"]
    assert set(pipeline["receivers"]) == set(document["receivers"])
    assert set(pipeline["exporters"]) == set(document["exporters"])
    assert document["service"]["extensions"] == [document["exporters"]["otlphttp"]["sending_queue"]["storage"]]
    # Dollar signs must be doubled; a single one would be a variable of the collector.
    assert "$" not in text("otelcol.yaml").replace("$$", "").replace("a dollar sign", "")


# The forms of statements in the block, and their effect on a metric or a data point.
_COPY = re.compile(r'copy_metric\(name="([^"]+)", unit="([^"]+)"\)')
_TO_SUM = re.compile(r'convert_gauge_to_sum\("cumulative", false\)')
_SET = re.compile(r'set\(datapoint\.attributes\["([^"]+)"\], (?:"([^"]*)"|datapoint\.attributes\["([^"]+)"\])\)')
_RENAME = re.compile(r'set\(metric\.name, "([^"]+)"\)')


def holds(condition: str, metric: Mapping[str, Any]) -> bool:
    name, _, other = condition.partition(" and ")
    pattern = re.fullmatch(r'IsMatch\(metric\.name, "(.*)"\)', name)
    exact = re.fullmatch(r'metric\.name == "(.*)"', name)
    assert pattern or exact, condition
    wanted = pattern[1].replace("$$", "$") if pattern else f"^{exact[1]}$" if exact else ""
    if not re.search(wanted, metric["name"]):
        return False
    attribute = re.fullmatch(r'datapoint\.attributes\["(.*?)"\] (== "(.*)"|!= nil)', other)
    assert attribute or not other, condition
    return attribute is None or metric["attributes"].get(attribute[1]) in (
        {attribute[3]} if attribute[3] else metric["attributes"].values()
    )


def applied(action: str, metric: dict[str, Any]) -> list[dict[str, Any]]:
    if match := _COPY.fullmatch(action):
        return [{**metric, "name": match[1], "unit": match[2], "attributes": dict(metric["attributes"])}]
    if match := _SET.fullmatch(action):
        metric["attributes"][match[1]] = match[2] if match[3] is None else metric["attributes"][match[3]]
    elif match := _RENAME.fullmatch(action):
        metric["name"] = match[1]
    else:
        assert _TO_SUM.fullmatch(action), action
        metric["kind"] = "sum"
    return []


def transformed(name: str, labels: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the metrics that the blocks add for a gauge with one point, by the Collector's semantics."""
    blocks = yaml.safe_load(text("otelcol.yaml"))["processors"]["transform/hw"]["metric_statements"]
    metrics: list[dict[str, Any]] = [{"name": name, "kind": "gauge", "attributes": dict(labels)}]
    for block in blocks:
        for metric in tuple(metrics):
            for statement in block["statements"]:
                action, _, condition = statement.partition(" where ")
                metrics += applied(action, metric) if holds(condition, metric) else []
    assert metrics[0] == {"name": name, "kind": "gauge", "attributes": dict(labels)}
    return metrics[1:]


CARD = {"id": "GPU-1", "device": "0", "vendor": "nvidia", "model": "H100"}
HARDWARE = {"hw.id": "GPU-1", "hw.name": "0", "hw.vendor": "nvidia", "hw.model": "H100", "hw.type": "gpu"}


@pytest.mark.parametrize(
    ("metric", "labels", "expected", "kind", "attributes"),
    [
        ("accelerator_power_watts", {}, "hw.power", "gauge", {}),
        ("accelerator_utilization_ratio", {}, "hw.gpu.utilization", "gauge", {"hw.gpu.task": "general"}),
        ("accelerator_engine_utilization_ratio", {"engine": "encoder"}, "hw.gpu.utilization", "gauge", {"hw.gpu.task": "encoder"}),
        ("accelerator_memory_used_bytes", {}, "hw.gpu.memory.usage", "sum", {}),
        ("accelerator_temperature_celsius", {"sensor": "memory"}, "hw.temperature", "gauge", {"hw.sensor_location": "memory", "hw.type": "temperature", "hw.parent": "GPU-1"}),
        ("accelerator_health", {"state": "alarm"}, "hw.status", "sum", {"hw.state": "degraded"}),
        ("accelerator_ecc_corrected_total", {}, "hw.errors", "gauge", {"error.type": "corrected"}),
    ],
)  # fmt: skip
def test_collector_adds_the_names_of_opentelemetry(
    metric: str, labels: Mapping[str, str], expected: str, kind: str, attributes: Mapping[str, str]
) -> None:
    (copy,) = transformed(metric, CARD | labels)
    assert (copy["name"], copy["kind"]) == (expected, kind)
    assert copy["attributes"] == CARD | labels | HARDWARE | attributes


def test_the_collector_knows_metrics_that_there_are() -> None:
    found = re.findall(r'where metric\.name == "(accelerator_\w+)"', text("otelcol.yaml"))
    assert len(found) >= 15
    assert set(found) <= set(BY_NAME)
    assert transformed("accelerator_up", CARD) == []


def test_blocks_of_alloy_refer_to_each_other() -> None:
    """Alloy cannot be run here: check brackets, strings and references."""
    code = re.sub(r"^//.*$", "", text("config.alloy"), flags=re.MULTILINE)
    bare = re.sub(r'"[^"\n]*"', '""', code)
    assert '"' not in bare.replace('""', "")
    for opening, closing in ("{}", "[]"):
        assert bare.count(opening) == bare.count(closing)
    blocks = {f"{kind}.{name}" for kind, name in re.findall(r'^([a-z_.]+) "(\w+)" \{$', code, flags=re.MULTILINE)}
    referred = {
        ".".join(found.split(".")[:3]) for found in re.findall(r"\b(?:discovery|prometheus)\.\w+\.\w+\.\w+", bare)
    }
    assert referred == {"discovery.file.nodes", "discovery.relabel.nodes", "prometheus.remote_write.store"}
    assert referred < blocks


def test_agent_unit_is_as_restricted_as_the_daemons_unit() -> None:
    ours, agents = settings(OUR_UNIT), settings(UNIT)
    assert len(ours) > 25
    assert {name: agents.get(name) for name in ours.keys() - OURS_ALONE - OF_ITS_OWN} == {
        name: values for name, values in ours.items() if name not in OURS_ALONE | OF_ITS_OWN
    }
    assert set(agents["RestrictAddressFamilies"][0].split()) < set(ours["RestrictAddressFamilies"][0].split())


@pytest.mark.needs("systemd-analyze")
def test_agent_unit_is_valid_and_has_low_exposure(tmp_path: Path) -> None:
    (tmp_path / UNIT.name).write_text(UNIT.read_text())
    drop_ins = tmp_path / f"{UNIT.name}.d"
    drop_ins.mkdir()
    (drop_ins / "vmagent.conf").write_text(text("vmagent.conf"))
    understood = analyze("verify", "--man=no", tmp_path / UNIT.name)
    assert (understood.returncode, understood.stderr) == (0, "")
    exposed = analyze("security", "--offline=true", f"--threshold={MAX_EXPOSURE}", UNIT)
    assert exposed.returncode == 0, exposed.stdout.splitlines()[-1]


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *map(str, arguments)], capture_output=True, text=True)


def test_queues_survive_a_restart() -> None:
    """All queues are in the state directory, which systemd keeps."""
    (folder,) = settings(UNIT)["StateDirectory"]
    for name in ("telemetry-agent.service", "vmagent.conf", "otelcol.yaml"):
        kept = re.findall(r"(?:storage\.agent\.path=|tmpDataPath=|\bdirectory: )(\S+)", text(name))
        assert kept, name
        assert [path for path in kept if not path.startswith(f"/var/lib/{folder}")] == []


def test_guide_names_every_file_and_fills_each_placeholder(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "agents.md").read_text()
    names = {file.name for file in FOLDER.iterdir() if file.is_file()}
    assert {name for name in names if f"`{name}`" not in guide} == set()
    assert names == {*CONFIGS, UNIT.name, "vmagent.conf"}
    placed = Path(shutil.copytree(FOLDER, tmp_path / "telemetry-agent"))
    steps = "\n".join(re.findall(r"^sed .*$", guide, re.MULTILINE)).replace("/etc/systemd/system/", "")
    subprocess.run(["bash", "-ec", steps], cwd=placed, check=True)
    for name in CONFIGS:
        # The address of vmagent's store is in its command line.
        filled = (placed / name).read_text() + (placed / "vmagent.conf").read_text() * (name == "vmagent.yml")
        assert re.search(r"(cluster|replacement)\W+hall7\b", filled)
        assert "metrics.hall7.example" in filled
        assert "store.example.com" not in filled
    # The option for agent mode in Prometheus 2.
    assert "\nEnvironment=AGENT=--enable-feature=agent\n" in (placed / UNIT.name).read_text()
