"""Alerts of a node in maintenance are inhibited until the announced end, also while the node is off."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from grafana.promtool import Question, Story, assert_answers, needed_by
from telemetry_grafana.outputs import ALERTS
from telemetry_grafana.rules.alerts_monitor import MAINTENANCE

pytestmark = pytest.mark.needs("promtool")

DAY_MINUTES = 24 * 60


def test_every_alert_of_a_node_is_held_back() -> None:
    """Alerts of a whole fleet have no instance and are not inhibited."""
    alerts = [alert for group in ALERTS for alert in group.alerts]
    assert {alert.name for alert in alerts if alert.grafana_expression == alert.promql} == {"TelemetryAbsent"}


def question_of(alert: str, at: str, instances: Sequence[str]) -> Question:
    held_back = f'unless on (instance) ALERTS{{alertname="{MAINTENANCE}",alertstate="firing"}}'
    query = f'count by (instance) (ALERTS{{alertname="{alert}",alertstate="firing"}} {held_back})'
    answers = {
        "{}" if instance == "none" else f'{{instance="{instance}"}}': instances.count(instance)
        for instance in instances
    }
    return Question(query, at, answers)


def courses() -> Iterator[tuple[str, Story]]:
    text = (Path(__file__).parent / "maintenance.txt").read_text()
    for name, what, *lines in map(str.splitlines, text.strip().split("\n\n")[1:]):
        alert, every, firing = re.fullmatch(r"(\w+)(?: every (\w+))?: (.*)", what).groups()  # type: ignore[union-attr]  # it is so written
        series = (line.strip().rpartition("} ")[::2] for line in lines)
        questions = [question_of(alert, at, instances) for at, *instances in map(str.split, firing.split(", "))]
        yield alert, Story({f"{metric}}}": values for metric, values in series}, questions, name, every or "1m")


def assert_courses(folder: Path, is_wanted: Callable[[int], bool]) -> None:
    chosen = [
        (alert, story)
        for alert, story in courses()
        if is_wanted(max(int(question.at[:-1]) for question in story.questions))
    ]
    assert chosen
    assert_answers(folder, needed_by(MAINTENANCE, *{alert for alert, _ in chosen}), [story for _, story in chosen])


def test_expected_alerts_fire_within_a_day(tmp_path: Path) -> None:
    assert_courses(tmp_path, lambda minutes: minutes < DAY_MINUTES)


@pytest.mark.long
def test_expected_alerts_fire_after_a_day(tmp_path: Path) -> None:
    assert_courses(tmp_path, lambda minutes: minutes >= DAY_MINUTES)
