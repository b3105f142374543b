"""Each alert fires where it must and stays silent where it must not, by promtool, for several vendors."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from grafana.alert_cases import CASES as OTHER_CASES
from grafana.alert_cases import Case, Series
from grafana.event_cases import EVENTS
from grafana.full_load_cases import FULL_LOAD
from telemetry_grafana.rules.catalogue import ALERTS

RULES = Path(__file__).resolve().parents[2] / "deploy" / "prometheus" / "rules"
FILES = [str(RULES / "telemetry-recording.yml"), str(RULES / "telemetry-alerts.yml")]
CASES = (*OTHER_CASES, *EVENTS, *FULL_LOAD)
LOOKED_AT = "60m"
SUMMARIES = {alert.name: alert.summary for group in ALERTS for alert in group.alerts}
LABEL = re.compile(r"\{([a-z_]+)")

pytestmark = pytest.mark.needs("promtool")


def labelled(series: Series, vendor: str) -> list[dict[str, str]]:
    target = 'job="telemetry",instance="node1"'
    device = f'{target},vendor="{vendor}",device="0",id="an id",model="m"'
    return [
        {
            "series": name.replace("{D}", device).replace("{T}", target).replace("{vendor}", vendor),
            "values": values,
        }
        for name, values in series.items()
    ]


def expecting(alert: str, series: Series, vendor: str, firing: int, name: str) -> dict[str, object]:
    # A label that its summary names and that it does not have would leave a hole there.
    labels = {label for label in LABEL.findall(SUMMARIES[alert]) if firing} - {"value"}
    filled = "".join(f',{label}!=""' for label in sorted(labels))
    expression = f'count(ALERTS{{alertname="{alert}",alertstate="firing"{filled}}}) or vector(0)'
    sample = {"labels": "{}", "value": firing}
    return {
        "name": name,
        "interval": "1m",
        "input_series": labelled(series, vendor),
        "promql_expr_test": [{"expr": expression, "eval_time": LOOKED_AT, "exp_samples": [sample]}],
    }


def all_of(case: Case) -> list[dict[str, object]]:
    return [
        test
        for vendor in case.vendors
        for test in (
            expecting(case.alert, case.fires, vendor, 1, f"{case.alert} fires for {vendor}"),
            *(
                expecting(case.alert, series, vendor, 0, f"{case.alert} is silent for {vendor}: {why}")
                for why, series in case.silent.items()
            ),
        )
    ]


def only(alert: str) -> dict[str, object]:
    """The rules that the alert takes, out of all: promtool evaluates every rule that it is given, which takes its time."""
    groups = [group for file in FILES for group in yaml.safe_load(Path(file).read_text())["groups"]]
    expressions = {rule.get("record", rule.get("alert")): rule["expr"] for group in groups for rule in group["rules"]}
    wanted, found = set(), {alert}
    while wanted != found:
        wanted = found
        found = wanted | {name for name in expressions if any(name in expressions[other] for other in wanted)}
    rules = (
        (group, [rule for rule in group["rules"] if rule.get("record", rule.get("alert")) in wanted])
        for group in groups
    )
    return {"groups": [{**group, "rules": taken} for group, taken in rules if taken]}


def promtool(
    tmp_path: Path, alert: str, tests: list[dict[str, object]], every: str = "1m"
) -> subprocess.CompletedProcess[str]:
    rules = tmp_path / "rules.yml"
    rules.write_text(yaml.safe_dump(only(alert)))
    file = tmp_path / "tests.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(rules)], "evaluation_interval": every, "tests": tests}))
    return subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.alert)
def test_an_alert_fires_where_it_must_and_only_there(tmp_path: Path, case: Case) -> None:
    result = promtool(tmp_path, case.alert, all_of(case))
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_alert_has_a_case_that_fires_it() -> None:
    groups = yaml.safe_load((RULES / "telemetry-alerts.yml").read_text())["groups"]
    assert {rule["alert"] for group in groups for rule in group["rules"]} == {case.alert for case in CASES}


def test_an_alert_names_the_card_and_its_runbook(tmp_path: Path) -> None:
    labels = {"job": "telemetry", "instance": "node1", "vendor": "amd", "device": "0", "id": "an id", "model": "m"}
    annotations = {
        "summary": "amd 0 (m) on node1 is lost",
        "description": "A source that listed the card works and does not list it any more: it fell off the bus, its "
        "driver gave it up, or it was taken out. A partition that goes while its card stays is no loss.",
        "check": "`lspci`, `dmesg` (NVIDIA: Xid 79), the vendor's tool. The label `id` names the card, whatever numbers the "
        "others have now.",
        "action": "Drain the node and power-cycle it; a reboot alone often does not bring the card back. A card taken out "
        "for good: `telemetry forget ID`.",
        "runbook_url": "file:///usr/share/doc/device-telemetry/alerts.md#acceleratorlost",
    }
    test = {
        "interval": "1m",
        "input_series": labelled({"accelerator_up{{D}}": "0x120"}, "amd"),
        "alert_rule_test": [
            {
                "eval_time": LOOKED_AT,
                "alertname": "AcceleratorLost",
                "exp_alerts": [{"exp_labels": {**labels, "severity": "critical"}, "exp_annotations": annotations}],
            }
        ],
    }
    result = promtool(tmp_path, "AcceleratorLost", [test])
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("file", FILES, ids=["recording", "alerts"])
def test_promtool_finds_nothing_in_the_rules(file: str) -> None:
    result = subprocess.run(["promtool", "check", "rules", file], capture_output=True, text=True)
    assert (result.returncode, "SUCCESS" in result.stdout) == (0, True), result.stdout + result.stderr
