"""The alerts as Grafana provisions them: the same ones, with the traps of its files minded."""

from __future__ import annotations

import re

import pytest
import yaml

from telemetry_grafana.rules import grafana, prometheus, words
from telemetry_grafana.rules.catalogue import ALERTS
from telemetry_grafana.rules.handbook import handbook

RULES = [rule for group in yaml.safe_load(grafana.rules())["groups"] for rule in group["rules"]]
PROMETHEUS = [rule for group in yaml.safe_load(prometheus.alert_rules())["groups"] for rule in group["rules"]]


def test_they_are_the_alerts_of_prometheus() -> None:
    mine = [(rule["title"], rule["data"][0]["model"]["expr"], rule["labels"]) for rule in RULES]
    assert mine == [(rule["alert"], rule["expr"], rule["labels"]) for rule in PROMETHEUS]
    assert [rule["for"] for rule in RULES] == [rule.get("for", "0m") for rule in PROMETHEUS]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["title"])
def test_nothing_in_a_rule_is_lost_by_grafanas_expansion(rule: dict[str, object]) -> None:
    """Grafana expands a dollar everywhere but in the model of a query."""
    texts = [rule["title"], *dict(rule["labels"]).values(), *dict(rule["annotations"]).values()]  # type: ignore[call-overload]  # YAML
    assert all("$" not in text for text in texts)
    assert len(str(rule["uid"])) <= 40
    assert re.fullmatch(r"[a-zA-Z0-9_-]+", str(rule["uid"]))


def test_no_answer_means_that_all_is_well() -> None:
    assert {rule["noDataState"] for rule in RULES} == {"OK"}
    assert {rule["condition"] for rule in RULES} == {"B"}


def test_uids_are_unique() -> None:
    uids = [rule["uid"] for rule in RULES]
    assert len(set(uids)) == len(uids)


@pytest.mark.parametrize(
    ("text", "prometheus_text", "grafana_text"),
    [
        ("{vendor} lost", "{{ .Labels.vendor }} lost", "{{ .Labels.vendor }} lost"),
        ("{value} K", "{{ .Value }} K", "{{ .Values.A.Value }} K"),
        ("{value:humanize}", "{{ .Value | humanize }}", "{{ .Values.A.Value | humanize }}"),
    ],
)
def test_a_summary_in_both_languages(text: str, prometheus_text: str, grafana_text: str) -> None:
    assert (words.for_prometheus(text), words.for_grafana(text)) == (prometheus_text, grafana_text)


@pytest.mark.parametrize("alert", [alert for group in ALERTS for alert in group.alerts], ids=lambda alert: alert.name)
def test_every_alert_says_what_it_means_how_to_check_and_what_to_do(alert) -> None:
    assert all(text.endswith(".") for text in (alert.meaning, alert.check, alert.remedy))
    assert f"### {alert.name}\n" in handbook()
    assert prometheus.runbook(alert).endswith(f"#{alert.name.lower()}")
