"""Each alert fires where it must and stays silent where it must not, by promtool."""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from grafana.alert_cases import Case, cases_of_the_file, labelled
from grafana.full_load_cases import FULL_LOAD
from grafana.promtool import ALERTS, RECORDING, Story, answers, assert_answers, groups_of, needed_by
from grafana.scenes import within
from grafana.test_lasting_alerts import courses
from telemetry_grafana import outputs

EVALUATED_AT = "60m"
# The other alerts fire in the same cases if rules are evaluated half as often.
COUNTS_EVALUATIONS = {"AcceleratorJobHangs"}
SUMMARIES = {alert.name: alert.summary for group in outputs.ALERTS for alert in group.alerts}
LABEL = re.compile(r"\{([a-z_]+)")
VENDORS = ("ascend", "nvidia")

pytestmark = pytest.mark.needs("promtool")


def cases() -> list[Case]:
    return [*cases_of_the_file(), *FULL_LOAD]


def complaint(alert: str, is_to_fire: bool, firing: list[Mapping[str, str]]) -> str:
    """Return what is wrong with the firing alerts, or "". A missing label would leave a gap in the summary."""
    ours = [labels for labels in firing if labels["alertname"] == alert]
    holes = {label for labels in ours for label in LABEL.findall(SUMMARIES[alert]) if label not in (*labels, "value")}
    if len(ours) != is_to_fire:
        return f"fires {len(ours)} times, not {int(is_to_fire)}"
    return f"has no {', '.join(sorted(holes))}" if holes else ""


@pytest.mark.parametrize("evaluated_every", ["1m", "2m"])
def test_each_alert_fires_in_its_cases_only(tmp_path: Path, evaluated_every: str) -> None:
    series: dict[str, str] = {}
    expected: dict[str, tuple[str, bool]] = {}
    for number, case in enumerate(cases()):
        if (case.alert in COUNTS_EVALUATIONS) != (evaluated_every == "1m"):
            continue
        vendor = VENDORS[number % len(VENDORS)]
        for why, of_case in {"": case.fires, **case.silent}.items():
            cluster = f"{number} {case.alert}: {why or 'it must fire'}"
            series |= within(cluster, labelled(of_case, vendor))
            expected[cluster] = case.alert, not why
    rules = needed_by(*{alert for alert, _ in expected.values()})
    (samples,) = answers(tmp_path, rules, series, [('ALERTS{alertstate="firing"}', EVALUATED_AT)], evaluated_every)
    firing: dict[str, list[Mapping[str, str]]] = {cluster: [] for cluster in expected}
    for labels, _ in samples:
        firing[labels["cluster"]].append(labels)
    complaints = {cluster: complaint(*expected[cluster], firing[cluster]) for cluster in expected}
    assert {cluster: text for cluster, text in complaints.items() if text} == {}


def test_every_alert_has_a_case_that_fires_it() -> None:
    """A case of an hour or of days."""
    found = {case.alert for case in cases()} | {course.alert for course in courses().values()}
    assert {rule["alert"] for group in groups_of(ALERTS) for rule in group["rules"]} == found


def test_an_alert_names_the_card_and_its_runbook(tmp_path: Path) -> None:
    labels = {"job": "telemetry", "instance": "node1", "vendor": "amd", "device": "0", "id": "an id", "model": "m"}
    rules = (rule for group in groups_of(ALERTS) for rule in group["rules"])
    annotations = dict(next(rule["annotations"] for rule in rules if rule["alert"] == "AcceleratorLost"))
    annotations["summary"] = "amd 0 (m) on node1 is lost"
    assert annotations["runbook"] == "docs/alerts.md#acceleratorlost"
    expected = {
        "eval_time": EVALUATED_AT,
        "alertname": "AcceleratorLost",
        "exp_alerts": [{"exp_labels": {**labels, "severity": "critical"}, "exp_annotations": annotations}],
    }
    story = Story(labelled({"accelerator_up{D}": "0x120"}, "amd"), [], alerts=[expected])
    assert_answers(tmp_path, needed_by("AcceleratorLost"), [story])


@pytest.mark.parametrize("file", [RECORDING, ALERTS], ids=["recording", "alerts"])
def test_promtool_accepts_the_rules(file: Path) -> None:
    result = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, text=True)
    assert (result.returncode, "SUCCESS" in result.stdout) == (0, True), result.stdout + result.stderr
