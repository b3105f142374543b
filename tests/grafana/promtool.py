"""What the rules make of series, as `promtool test rules` plays it."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kits.captures import ROOT

_FOLDER = ROOT / "deploy" / "prometheus" / "rules"
RECORDING, ALERTS = _FOLDER / "telemetry-recording.yml", _FOLDER / "telemetry-alerts.yml"

Group = Mapping[str, Any]
Series = Mapping[str, str]


@dataclass(frozen=True)
class Question:
    """A query at a time such as `60m`, and its answers: values by their labels, `{}` without any."""

    query: str
    at: str
    answers: Mapping[str, float]

    def for_promtool(self) -> dict[str, object]:
        samples = [{"labels": labels, "value": value} for labels, value in self.answers.items()]
        return {"expr": self.query, "eval_time": self.at, "exp_samples": samples}


@dataclass(frozen=True)
class Story:
    """Series in promtool's notation, a value at each scrape, what is asked of them, and the alerts that they set off."""

    series: Series
    questions: Sequence[Question]
    name: str = ""
    scraped_every: str = "1m"
    alerts: Sequence[Mapping[str, object]] = ()

    def for_promtool(self) -> dict[str, object]:
        return {
            "name": self.name,
            "interval": self.scraped_every,
            "input_series": [{"series": name, "values": values} for name, values in self.series.items()],
            "promql_expr_test": [question.for_promtool() for question in self.questions],
            "alert_rule_test": list(self.alerts),
        }


@functools.cache
def groups_of(*files: Path) -> tuple[Group, ...]:
    """The groups of rule files."""
    return tuple(group for file in files for group in yaml.safe_load(file.read_text())["groups"])


def needed_by(alert: str) -> list[Group]:
    """The rules that the alert takes, out of all: promtool evaluates every rule that it is given, which takes its time."""
    groups = groups_of(RECORDING, ALERTS)
    expressions = {rule.get("record", rule.get("alert")): rule["expr"] for group in groups for rule in group["rules"]}
    wanted, found = set(), {alert}
    while wanted != found:
        wanted = found
        found = wanted | {name for name in expressions if any(name in expressions[other] for other in wanted)}
    rules = (
        (group, [rule for rule in group["rules"] if rule.get("record", rule.get("alert")) in wanted])
        for group in groups
    )
    return [{**group, "rules": taken} for group, taken in rules if taken]


def assert_told(folder: Path, groups: Sequence[Group], stories: Iterable[Story], evaluated_every: str = "1m") -> None:
    """Under these rules every story goes as it says."""
    rules, tests = folder / "rules.json", folder / "tests.json"
    # JSON is YAML, too, and is written in a tenth of the time.
    rules.write_text(json.dumps({"groups": groups}))
    told = [story.for_promtool() for story in stories]
    document = {
        "rule_files": [str(rules)],
        "evaluation_interval": evaluated_every,
        # Else promtool goes through the groups in another order each time.
        "group_eval_order": [group["name"] for group in groups],
        "tests": told,
    }
    tests.write_text(json.dumps(document))
    # A promtool that collects its garbage less often takes a sixth less CPU.
    patient = os.environ | {"GOGC": "400"}
    command = ["promtool", "test", "rules", str(tests)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=patient)
    assert done.returncode == 0, done.stdout + done.stderr
