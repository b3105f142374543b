"""The provisioned alerts of Grafana: the same alerts, escaped for its files."""

import re
import subprocess
from functools import cache
from importlib.metadata import entry_points
from typing import Any

import pytest
import yaml

from kits.captures import ROOT
from telemetry_exporters.judgement.verdict import CONDITIONS
from telemetry_grafana import outputs
from telemetry_grafana.outputs import ALERTS, handbook
from telemetry_grafana.rules.alerts_monitor import MAINTENANCE, PER_CARD_POLLS
from telemetry_grafana.rules.recording import GROUPS
from telemetry_grafana.rules.rule import MAINTENANCE_END, RUNBOOKS_VARIABLE
from telemetry_parsers.model import Command

RARELY = {rule.name for group in GROUPS if group.interval == "10m" for rule in group.rules}
OURS = [alert for group in ALERTS for alert in group.alerts]


@cache
def grafanas() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(outputs.grafana_rules())["groups"] for rule in group["rules"]]


@cache
def alerts() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(outputs.alert_rules())["groups"] for rule in group["rules"]]


def expressions() -> list[str]:
    return [rule["expr"] for rule in alerts()] + [rule.expression for group in GROUPS for rule in group.rules]


def test_alerts_equal_those_of_prometheus() -> None:
    theirs = [rule for rule in alerts() if rule["alert"] != MAINTENANCE]
    assert [(rule["title"], rule["labels"], rule["for"]) for rule in grafanas()] == [
        (rule["alert"], rule["labels"], rule.get("for", "0m")) for rule in theirs
    ]
    ours = {alert.name: alert for alert in OURS}
    for rule in grafanas():
        expression, alert = rule["data"][0]["model"]["expr"], ours[rule["title"]]
        is_held_back = alert.inhibited_by or alert.inhibited_by_event
        assert expression == alert.grafana_expression or (
            is_held_back and expression.startswith(f"({alert.grafana_expression}) unless on ")
        )


def test_nothing_in_a_rule_is_lost_by_grafanas_expansion() -> None:
    """Grafana expands dollar signs everywhere except in the model of a query."""
    for rule in grafanas():
        texts = [rule["title"], *rule["labels"].values(), *rule["annotations"].values()]
        assert all("$" not in text for text in texts), rule["title"]
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", rule["uid"])


def runbooks(text: str) -> list[dict[str, str]]:
    rules = [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]
    return [{key: value for key, value in rule["annotations"].items() if "runbook" in key} for rule in rules]


@pytest.mark.parametrize(
    ("setting", "key", "page"),
    [
        ("", "runbook", "docs/alerts.md"),
        ("https://wiki.example.com/alerts.md", "runbook_url", "https://wiki.example.com/alerts.md"),
    ],
)
def test_runbook_is_a_link_if_a_url_is_set(monkeypatch: pytest.MonkeyPatch, setting: str, key: str, page: str) -> None:
    """In the rules of Prometheus, which the Helm chart uses, and of Grafana. Otherwise it is the name of a section."""
    monkeypatch.setenv(RUNBOOKS_VARIABLE, setting)
    names = [alert.name for alert in OURS]
    assert runbooks(outputs.alert_rules()) == [{key: f"{page}#{name.lower()}"} for name in names]
    assert runbooks(outputs.grafana_rules()) == [
        {key: f"{page}#{name.lower()}"} for name in names if name != MAINTENANCE
    ]
    for name in names:
        assert f"### {name}\n" in handbook(), "the anchor that a link leads to"


def test_alerts_and_the_verdict_advise_the_same() -> None:
    advised = {alert.name: alert.action for alert in OURS}
    for condition in CONDITIONS:
        if condition.alert:
            remedy = condition.remedy.replace("{id}", "ID") + "."
            assert advised[condition.alert] == remedy[0].upper() + remedy[1:]


@pytest.mark.parametrize("setting", ["docs/alerts.md", "https://wiki/a b", "http://w/$1"])
def test_a_runbook_that_is_no_url_is_refused(monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    monkeypatch.setenv(RUNBOOKS_VARIABLE, setting)
    with pytest.raises(ValueError, match=re.escape(f"RUNBOOKS={setting} is not a URL: set the URL")):
        outputs.alert_rules()


def test_the_package_installs_the_page_of_the_runbooks() -> None:
    assert (ROOT / "docs" / "alerts.md").read_text() == handbook()
    script = (ROOT / "deploy" / "debian" / "build.sh").read_text()
    commands = re.search(r"for page in ([a-z ]+); do\n(.*?)>", script, re.DOTALL)
    assert commands is not None
    installed = commands[1].split()
    for page in installed:
        command = ["bash", "-c", f"page={page}; {commands[2]}"]
        text = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        linked = set(re.findall(r"\]\((\w[^)#]*)", text))
        assert linked <= {f"{name}.md" for name in installed}, "a link of it leads nowhere"


def test_every_recorded_series_is_used() -> None:
    """By an alert, a dashboard or another rule, because an unused rule wastes memory."""
    sources = {rule["alert"]: rule["expr"] for rule in alerts()}
    sources |= {rule.name: rule.expression for group in GROUPS for rule in group.rules}
    sources |= {path.name: path.read_text() for path in (ROOT / "grafana" / "dashboards").glob("*.json")}
    recorded = [rule.name for group in GROUPS for rule in group.rules]
    others = {name: " ".join(text for user, text in sources.items() if user != name) for name in recorded}
    assert [name for name in recorded if not re.search(rf"{name}(?![\w:])", others[name])] == []


def test_a_rule_looks_back_days_only_at_what_is_recorded_every_ten_minutes() -> None:
    """Evaluating a day of scrapes of every link of two thousand cards takes a minute."""
    found = {name for text in expressions() for name, _ in re.findall(r"([\w:]+)(?:\{[^}]*\})?\[(\d+)d\]", text)}
    assert found
    assert found <= RARELY


def test_clusters_that_share_a_store_stay_apart() -> None:
    """Two of them may have nodes of the same name."""
    lists = [labels for text in expressions() for labels in re.findall(r"\b(?:by|on) \(([^)]*)\)", text)]
    assert [labels for labels in lists if "cluster" not in labels.split(", ")] == []


def test_no_rule_compares_the_clock_of_prometheus_with_a_nodes() -> None:
    """A node's clock may be years behind. One rule compares the two clocks and reports that."""
    for expression in expressions():
        # The start of a daemon's state identifies the state: it is only compared with an earlier start.
        text = expression.replace("telemetry_remembers_since_timestamp_seconds", "memory")
        # The end of a maintenance is recorded by the clock of Prometheus.
        text = text.replace(MAINTENANCE_END, "maintenance")
        rest = re.sub(r"last_over_time\(maintenance\[\w+\]\) (>|-) time\(\)( - \d+\) <= time\(\))?", "", text)
        assert not re.search(r"(?<!\w)time\(\)", rest), expression
        assert "telemetry_time_seconds" in text or not re.search(r"_time(?:stamp)?_seconds(?! *\[)", text), expression


def test_polls_of_every_card_have_time_for_each() -> None:
    """TelemetryPollSlow knows each poll that runs its tool once for every card, and no other."""
    parsers = [entry.load() for entry in entry_points(group="telemetry.parsers")]
    found = {
        (parser.name, poll.name)
        for parser in parsers
        for poll in parser.polls
        if isinstance(poll.request, Command) and poll.request.per is not None
    }
    assert found == {(name, poll) for name, polls in PER_CARD_POLLS.items() for poll in polls.split("|")}


def test_the_handbook_lists_the_thresholds_of_each_alert():
    sections = dict(re.findall(r"### (\w+)\n(.*?)(?=\n##|\Z)", handbook(), re.DOTALL))
    assert "- [Thresholds](#thresholds): `fan_stopped_celsius` = `70`.\n" in sections["AcceleratorFanStopped"]
    assert "[Thresholds]" not in sections["AcceleratorLost"]
