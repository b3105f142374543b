"""Evaluate the rules over series with `promtool test rules`."""

import functools
import json
import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kits.captures import ROOT

_FOLDER = ROOT / "deploy" / "prometheus" / "rules"
RECORDING, ALERTS = _FOLDER / "telemetry-recording.yml", _FOLDER / "telemetry-alerts.yml"
_NEVER = [{"labels": '{nothing="has this label"}', "value": 1}]
_SAMPLE = re.compile(r"\{((?:[^{}\"]|\"[^\"]*\")*)\} (\S+?)(?:, (?=\w*\{)|$)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')

Group = Mapping[str, Any]
Series = Mapping[str, str]
# A sample's labels without its name, and its value.
Sample = tuple[Mapping[str, str], float]


@dataclass(frozen=True)
class Question:
    """A query at a time such as `60m`, and the expected values by labels; the labels `{}` stand for none."""

    query: str
    at: str
    answers: Mapping[str, float]

    def for_promtool(self) -> dict[str, object]:
        samples = [{"labels": labels, "value": value} for labels, value in self.answers.items()]
        return {"expr": self.query, "eval_time": self.at, "exp_samples": samples}


@dataclass(frozen=True)
class Story:
    """Series in promtool's notation, a value at each scrape, with queries and the alerts that fire."""

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
    return tuple(group for file in files for group in yaml.safe_load(file.read_text())["groups"])


def needed_by(*alerts: str) -> list[Group]:
    """Return only the rules that these alerts need, or all alerts: promtool evaluates every rule, which is slow."""
    every = (rule["alert"] for group in groups_of(ALERTS) for rule in group["rules"])
    return needed_of(groups_of(RECORDING, ALERTS), alerts or every)


def needed_of(groups: Iterable[Group], alerts: Iterable[str]) -> list[Group]:
    expressions = {rule.get("record", rule.get("alert")): rule["expr"] for group in groups for rule in group["rules"]}
    wanted, found = set(), set(alerts)
    while wanted != found:
        wanted = found
        found = wanted | {name for name in expressions if any(name in expressions[other] for other in wanted)}
    rules = (
        (group, [rule for rule in group["rules"] if rule.get("record", rule.get("alert")) in wanted])
        for group in groups
    )
    return [{**group, "rules": wanted_rules} for group, wanted_rules in rules if wanted_rules]


def _run(folder: Path, groups: Sequence[Group], stories: Iterable[Mapping[str, object]], every: str) -> str:
    """Return where promtool's results differ from the stories; empty if nowhere."""
    rules, tests = folder / "rules.json", folder / "tests.json"
    # JSON is YAML, too, and is written in a tenth of the time.
    rules.write_text(json.dumps({"groups": groups}))
    document = {
        "rule_files": [str(rules)],
        "evaluation_interval": every,
        # Otherwise promtool evaluates the groups in a random order.
        "group_eval_order": [group["name"] for group in groups],
        "tests": list(stories),
    }
    tests.write_text(json.dumps(document))
    # One thread that rarely collects its garbage takes half of the CPU.
    frugal = os.environ | {"GOGC": "400", "GOMAXPROCS": "1"}
    done = subprocess.run(["promtool", "test", "rules", str(tests)], capture_output=True, text=True, env=frugal)
    return done.stdout + done.stderr if done.returncode else ""


def assert_answers(
    folder: Path, groups: Sequence[Group], stories: Iterable[Story], evaluated_every: str = "1m"
) -> None:
    output = _run(folder, groups, [story.for_promtool() for story in stories], evaluated_every)
    assert not output, output


def answers(
    folder: Path,
    groups: Sequence[Group],
    series: Series,
    queries: Sequence[tuple[str, str]],
    evaluated_every: str = "1m",
) -> list[list[Sample]]:
    """Return the answer of each query at its time; promtool prints answers that it does not expect."""
    questions = [{"expr": query, "eval_time": at, "exp_samples": _NEVER} for query, at in queries]
    # Prometheus expands the texts of all alerts at each evaluation.
    bare = [
        {**group, "rules": [{**rule, "annotations": {}} if "alert" in rule else rule for rule in group["rules"]]}
        for group in groups
    ]
    output = _run(folder, bare, [{**Story(series, []).for_promtool(), "promql_expr_test": questions}], evaluated_every)
    found = re.findall(r"^ +got: *(.*)$", output, re.MULTILINE)
    assert len(found) == len(queries), output
    return [[(dict(_LABEL.findall(labels)), float(value)) for labels, value in _SAMPLE.findall(text)] for text in found]
