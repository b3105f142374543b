"""The chart in the repository: vendors, sources, tools and labels match the daemon, and values are documented."""

import json
import re
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from kits.captures import ROOT
from kits.helm_chart import CHART, POOLS, VALUE_SETS, VALUES
from telemetry_daemon.readers import pci
from telemetry_parsers.model import Command
from telemetry_parsers.vendors import VENDOR_WORDS

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
GUIDE = (ROOT / "docs" / "kubernetes.md").read_text()
NFD_LABEL = re.compile(r"feature\.node\.kubernetes\.io/pci-([0-9a-f]{4})_([0-9a-f]{4})\.present")
PARSERS = {item.name: item.load() for item in entry_points(group="telemetry.parsers")}


def pool(name: str) -> dict[str, Any]:
    return {**VALUES["poolDefaults"], **VALUES["pools"][name]}


def refusals(values: dict[str, Any]) -> list[str]:
    found = jsonschema.Draft7Validator(SCHEMA).iter_errors(values)
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}" for error in found]


def over_defaults(values: dict[str, Any], defaults: dict[str, Any] = VALUES) -> dict[str, Any]:
    """Return the values that the schema checks: the user's values merged over the chart's, as by Helm."""
    merged = dict(defaults)
    for key, value in values.items():
        both_maps = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = over_defaults(value, merged[key]) if both_maps else value
    return merged


@pytest.mark.parametrize(
    ("name", "pattern", "target"),
    [("rules", "*.yml", "deploy/prometheus/rules"), ("dashboards", "*.json", "grafana/dashboards")],
)
def test_rules_and_dashboards_are_linked_not_copied(name: str, pattern: str, target: str) -> None:
    link = CHART / "files" / name
    assert link.is_symlink()
    assert not link.readlink().is_absolute()
    assert link.resolve() == ROOT / target
    # Nothing else is packaged with them.
    assert {path.suffix for path in link.iterdir()} == {Path(pattern).suffix}


@pytest.mark.parametrize("name", POOLS)
def test_a_pool_polls_sources_that_the_daemon_has_and_one_of_the_vendor(name: str) -> None:
    sources = pool(name)["sources"]
    assert "host" in sources
    assert [source for source in sources if source not in PARSERS] == []
    vendors = {PARSERS[source].vendor for source in sources}
    assert name in vendors


@pytest.mark.parametrize("name", POOLS)
def test_a_node_label_names_cards_that_the_daemon_knows_as_that_vendor(name: str, tmp_path: Path) -> None:
    labels = [found for label in pool(name)["anyNodeLabel"] if (found := NFD_LABEL.fullmatch(label))]
    assert labels
    for number, label in enumerate(labels, start=1):
        folder = tmp_path / f"0000:{number:02x}:00.0"
        folder.mkdir()
        (folder / "class").write_text(f"0x{label[1]}00\n")
        (folder / "vendor").write_text(f"0x{label[2]}\n")
    assert pci.count_by_vendor(pci.find_accelerators(tmp_path)) == {name: len(labels)}


@pytest.mark.parametrize("name", [name for name in POOLS if pool(name)["hostPaths"]])
def test_a_mounted_tool_is_where_the_daemon_looks(name: str) -> None:
    mounted = [Path(item["path"]) for item in pool(name)["hostPaths"]]
    requests = [poll.request for source in pool(name)["sources"] for poll in PARSERS[source].polls]
    commands = [request for request in requests if isinstance(request, Command)]
    assert commands
    for command in commands:
        tools = [Path(folder) / line[0] for line in command.alternatives for folder in command.folders]
        assert any(tool.is_relative_to(path) for tool in tools for path in mounted), command.alternatives[0][0]


@pytest.mark.parametrize("name", VALUE_SETS)
def test_schema_accepts_valid_values(name: str) -> None:
    assert refusals(over_defaults(VALUE_SETS[name])) == []


def test_schema_has_exactly_the_values_of_the_chart() -> None:
    defaults, properties = VALUES["poolDefaults"], SCHEMA["definitions"]["pool"]["properties"]
    assert set(properties) == {*defaults, "like"}
    assert set(SCHEMA["properties"]) == {*VALUES, "global", "enabled"}


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"prot": 9400}, ": Additional properties are not allowed ('prot' was unexpected)"),
        ({"port": "9400"}, "port: '9400' is not of type 'integer'"),
        ({"image": {"repository": "registry.example.com/x:1"}}, "image.repository: "),
        ({"monitor": {"kind": "podmonitor"}}, "monitor.kind: 'podmonitor' is not one of"),
        ({"monitor": {"interval": "15"}}, "monitor.interval: '15' does not match"),
        ({"pools": {"nvidia": {"config": {"web": {"telemetry_path": "/page"}}}}}, "pools.nvidia.config.web: "),
        ({"pools": {"H100": {}}}, "pools: 'H100' does not match"),
        ({"pools": {"nvidia": {"nodeselector": {}}}}, "pools.nvidia: Additional properties"),
        ({"pools": {"nvidia": {"hostPaths": [{"name": "a", "path": "opt", "type": "File"}]}}}, "path: 'opt' does not"),
        ({"pools": {"nvidia": {"hostPaths": [{"name": "tmp", "path": "/a", "type": "File"}]}}}, "hostPaths.0.name: "),
    ],
)
def test_the_schema_names_what_is_wrong(values: dict[str, Any], complaint: str) -> None:
    found = refusals(over_defaults(values))
    assert len(found) == 1, found
    assert complaint in found[0]


def test_values_of_the_guide_are_values_of_the_chart() -> None:
    blocks = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)]
    assert len(blocks) > 2
    for block in blocks:
        assert refusals(over_defaults(block)) == []
    flags = dict(re.findall(r"--set(?:-string)? ([\w.]+)=(\S+)", GUIDE))
    assert flags
    for path, value in flags.items():
        # As Helm reads it: {a,b} is a list.
        nested: Any = value.strip("'{}").split(",") if "{" in value else yaml.safe_load(value)
        for key in reversed(path.split(".")):
            nested = {key: nested}
        assert refusals(over_defaults(nested)) == [], path


def test_every_vendor_has_a_documented_pool() -> None:
    assert sorted(POOLS) == sorted(VENDOR_WORDS)
    on = [name for name in POOLS if pool(name)["enabled"]]
    assert [name for name in on if pool(name)["privileged"] or pool(name)["hostPaths"]] == []
    assert [name for name in POOLS if f"| `{name}` |" not in GUIDE] == []
    privileged = [name for name in POOLS if pool(name)["privileged"]]
    rows = {name: next(line for line in GUIDE.splitlines() if line.startswith(f"| `{name}` |")) for name in POOLS}
    assert [name for name, row in rows.items() if ("privileged" in row) != (name in privileged)] == []
    for name in POOLS:
        assert [item["path"] for item in pool(name)["hostPaths"] if f"`{item['path']}`" not in rows[name]] == []
