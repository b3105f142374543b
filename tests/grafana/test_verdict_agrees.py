"""The verdict agrees with the alerts: no alert about a card's current state fires if its verdict is `ok`."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from grafana.promtool import ALERTS, RECORDING, Question, Story, assert_answers, groups_of, needed_by
from kits.planted_faults import FAULTS, NO_FAULTS, WELL, Fault, node_with, together
from kits.snapshots import WALL_TIME
from telemetry_exporters.judgement.verdict import CONDITIONS, Finding, Severity, judge
from telemetry_exporters.prometheus.renderer import Renderer
from telemetry_grafana.outputs import ALERTS as ALERT_GROUPS
from telemetry_parsers.metrics import BY_NAME
from telemetry_parsers.model import Snapshot

BY_ALERT = {alert.name: alert for group in ALERT_GROUPS for alert in group.alerts}
EXPRESSIONS = {
    rule.get("record", rule.get("alert")): rule["expr"]
    for group in groups_of(RECORDING, ALERTS)
    for rule in group["rules"]
}
# It needs links that were up long ago; the daemon's event `link_down` is planted instead.
OF_THE_PAST = {"AcceleratorLinkDown"}
COMPARED = {condition.alert for condition in CONDITIONS if condition.alert} - OF_THE_PAST
MINUTES = 85
OF_THE_PRESENT = re.compile(r"(rate|increase|changes|delta|(avg|min|max|count|sum|quantile)_over_time)\(|\boffset\b")
GROUPING = re.compile(r"\b(?:on|by) \(([^)]*)\)")
NAMES = re.compile(r"\b[a-z]+[_:][a-z0-9_:]+\b")


def whole(expression: str, inside: tuple[str, ...] = ()) -> str:
    """Return the expression with recorded series replaced by their expressions; some refer to their own past."""

    def filled(name: re.Match[str]) -> str:
        of_it = EXPRESSIONS.get(name[0])
        return name[0] if of_it is None or name[0] in inside else f"({whole(of_it, (*inside, name[0]))})"

    return re.sub(r"\b[a-z]+:[a-z0-9_:]+\b", filled, expression)


def reads_one_cards_present(trouble: str) -> bool:
    bare = re.sub(r'"[^"]*"', "", trouble)
    alone = all("id" in re.split(r",\s*", labels[1]) for labels in GROUPING.finditer(bare))
    metrics = [BY_NAME[name] for name in NAMES.findall(bare) if name in BY_NAME]
    return alone and all(metric.scope == "device" for metric in metrics) and not OF_THE_PRESENT.search(bare)


def test_every_alert_about_the_state_of_one_card_is_compared() -> None:
    troubles = {name: whole(alert.promql) for name, alert in BY_ALERT.items() if "accelerator" in alert.promql}
    present = {name for name, trouble in troubles.items() if reads_one_cards_present(trouble)}
    assert len(present) >= 9
    assert present <= COMPARED


def test_critical_alerts_are_bad_in_the_verdict() -> None:
    for condition in CONDITIONS:
        if condition.alert and BY_ALERT[condition.alert].severity == "critical":
            assert condition.severity is Severity.BAD, condition


def alerts_of(findings: Iterable[Finding]) -> set[str]:
    by_meaning = {(condition.meaning, condition.severity): condition.alert for condition in CONDITIONS}
    return {by_meaning[finding.meaning, finding.severity] for finding in findings if finding.meaning} & COMPARED


def series_of(node: Snapshot) -> Mapping[str, str]:
    """Return the series of a node that is scraped every minute; an event is exposed from its time on."""
    came = {
        (device.id, reading.label): max(0, MINUTES - round((WALL_TIME - reading.value) / 60))
        for device in node.devices
        for reading in device.readings
        if reading.metric == "event_last_timestamp_seconds" and isinstance(reading.value, float)
    }
    series = {}
    for line in Renderer().text(node).decode().splitlines():
        sample = re.fullmatch(r"(\w+)\{(.*)\} (\S+)", line)
        if sample and sample[1].startswith("accelerator_"):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', sample[2]))
            begins = min(came.get((labels["id"], labels.get("code", "")), 0), MINUTES - 1)
            before = f"_x{begins - 1} " if begins else ""
            series[f'{sample[1]}{{job="j",instance="n",{sample[2]}}}'] = f"{before}{sample[3]}x{MINUTES}"
    return series


def assert_agree(folder: Path, node: Snapshot, silent: Sequence[str] = ()) -> None:
    verdict = judge(node)
    answers = {
        f'{{alertname="{alert}",id="{device_id}"}}': 1
        for device_id, findings in verdict.items()
        for alert in sorted(alerts_of(findings))
        if device_id not in silent
    }
    firing = f'group by (alertname, id) (ALERTS{{alertstate="firing",alertname=~"{"|".join(sorted(COMPARED))}"}})'
    story = Story(series_of(node), [Question(firing, f"{MINUTES - 1}m", answers)])
    assert_answers(folder, rules(), [story], evaluated_every="2m")


def rules() -> list[Mapping[str, object]]:
    groups: dict[str, dict[str, object]] = {}
    for alert in sorted(COMPARED):
        for group in needed_by(alert):
            kept = groups.setdefault(group["name"], {**group, "rules": []})
            kept["rules"] += [rule for rule in group["rules"] if rule not in kept["rules"]]  # type: ignore[operator]  # a list, as it was made above
    return list(groups.values())


@pytest.mark.needs("promtool")
def test_the_alerts_of_each_fault_are_those_that_its_conditions_name(tmp_path: Path) -> None:
    faults = {**FAULTS, **NO_FAULTS}
    node, ids = node_with(faults)
    assert_agree(tmp_path, node, [ids[name] for name, fault in faults.items() if fault.is_silent])


# Values near the thresholds of any sensor.
DEGREES = st.sampled_from([60.0, 81.9, 82.0, 85.0, 85.1, 87.0, 90.0, 94.9, 95.0, 95.1, 97.0, 104.9, 105.0, 110.0])
SENSORS = ("core", "junction", "aid0", "hbm0", "board")
LIMITS = ("slowdown", "critical", "shutdown")
HEAT = st.dictionaries(
    st.sampled_from(
        [
            *(("temperature_celsius", sensor) for sensor in SENSORS),
            *((f"temperature_{limit}_celsius", sensor) for sensor in SENSORS for limit in LIMITS),
        ]
    ),
    DEGREES,
    min_size=2,
)
MARGIN = st.one_of(
    st.just({}),
    st.sampled_from([-3.0, 0.0, 4.9, 5.0, 20.0]).map(lambda left: {("temperature_margin_celsius", ""): left}),
)
HOT = st.builds(
    lambda heat, margin: Fault("", "", {**heat, **margin}, tuple(key for key in WELL if "temperature" in key[0])),
    HEAT,
    MARGIN,
)
SEEN = [fault for fault in (*FAULTS.values(), *NO_FAULTS.values()) if not fault.is_silent]
CARDS = st.lists(
    st.one_of(HOT, st.lists(st.one_of(st.sampled_from(SEEN), HOT), min_size=2, max_size=4).map(together)),
    min_size=60,
    max_size=60,
)


@pytest.mark.long
@pytest.mark.needs("promtool")
# Prometheus would take minutes to find the smallest example.
@settings(max_examples=3, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(cards=CARDS)
def test_alerts_and_verdict_agree_for_several_faults(
    tmp_path_factory: pytest.TempPathFactory, cards: list[Fault]
) -> None:
    node, _ = node_with({str(number): fault for number, fault in enumerate(cards)})
    assert_agree(tmp_path_factory.mktemp("played"), node)
