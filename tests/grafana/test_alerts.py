"""Each alert fires where it must and stays silent where it must not, by promtool, for several vendors."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from grafana.alert_cases import CASES as OTHER_CASES
from grafana.alert_cases import Case, Series
from grafana.event_cases import EVENTS
from grafana.full_load_cases import FULL_LOAD
from grafana.owner_cases import OWNER_CASES
from grafana.promtool import ALERTS, RECORDING, Question, Story, assert_told, groups_of, needed_by
from telemetry_grafana.rules import catalogue

CASES = (*OTHER_CASES, *EVENTS, *FULL_LOAD, *OWNER_CASES)
LOOKED_AT = "60m"
SUMMARIES = {alert.name: alert.summary for group in catalogue.ALERTS for alert in group.alerts}
LABEL = re.compile(r"\{([a-z_]+)")

pytestmark = pytest.mark.needs("promtool")


def labelled(series: Series, vendor: str) -> dict[str, str]:
    target = 'job="telemetry",instance="node1"'
    device = f'{target},vendor="{vendor}",device="0",id="an id",model="m"'
    return {
        name.replace("{D}", device).replace("{T}", target).replace("{vendor}", vendor): values
        for name, values in series.items()
    }


def expecting(alert: str, series: Series, vendor: str, firing: int, name: str) -> Story:
    # A label that its summary names and that it does not have would leave a hole there.
    labels = {label for label in LABEL.findall(SUMMARIES[alert]) if firing} - {"value"}
    filled = "".join(f',{label}!=""' for label in sorted(labels))
    query = f'count(ALERTS{{alertname="{alert}",alertstate="firing"{filled}}}) or vector(0)'
    return Story(labelled(series, vendor), [Question(query, LOOKED_AT, {"{}": firing})], name)


def all_of(case: Case) -> list[Story]:
    return [
        story
        for vendor in case.vendors
        for story in (
            expecting(case.alert, case.fires, vendor, 1, f"{case.alert} fires for {vendor}"),
            *(
                expecting(case.alert, series, vendor, 0, f"{case.alert} is silent for {vendor}: {why}")
                for why, series in case.silent.items()
            ),
        )
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.alert)
def test_an_alert_fires_where_it_must_and_only_there(tmp_path: Path, case: Case) -> None:
    assert_told(tmp_path, needed_by(case.alert), all_of(case))


def test_every_alert_has_a_case_that_fires_it() -> None:
    assert {rule["alert"] for group in groups_of(ALERTS) for rule in group["rules"]} == {case.alert for case in CASES}


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
    expected = {
        "eval_time": LOOKED_AT,
        "alertname": "AcceleratorLost",
        "exp_alerts": [{"exp_labels": {**labels, "severity": "critical"}, "exp_annotations": annotations}],
    }
    story = Story(labelled({"accelerator_up{{D}}": "0x120"}, "amd"), [], alerts=[expected])
    assert_told(tmp_path, needed_by("AcceleratorLost"), [story])


@pytest.mark.parametrize("file", [RECORDING, ALERTS], ids=["recording", "alerts"])
def test_promtool_finds_nothing_in_the_rules(file: Path) -> None:
    result = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, text=True)
    assert (result.returncode, "SUCCESS" in result.stdout) == (0, True), result.stdout + result.stderr
