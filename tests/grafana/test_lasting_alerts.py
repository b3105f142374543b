"""An alert lasts as long as its trouble: days later it still fires, and it ends when the trouble does."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from grafana.alert_cases import Series, labelled
from grafana.promtool import Question, Story, assert_answers, needed_by

pytestmark = pytest.mark.needs("promtool")

STEPS_A_DAY, STEP = 24 * 12, "5m"
LONG_HOURS = 48


@dataclass(frozen=True)
class Course:
    """An alert, series in steps of five minutes, and the number of firing alerts by hour."""

    alert: str
    firing: Mapping[float, int]
    series: Series


def courses() -> dict[str, Course]:
    text = (Path(__file__).parent / "lasting_alerts.txt").read_text()
    text = re.sub(r"(?<=x)(\d+)d", lambda days: str(int(days[1]) * STEPS_A_DAY), text)
    found = {}
    for name, what, *lines in map(str.splitlines, text.strip().split("\n\n")[1:]):
        alert, _, firing = what.partition(": ")
        hours = {float(hour): int(count) for hour, count in re.findall(r"([\d.]+)h (\d+)", firing)}
        series = (line.strip().rpartition("} ")[::2] for line in lines)
        found[name] = Course(alert, hours, {f"{metric}}}": values for metric, values in series})
    return found


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long if max(course.firing) > LONG_HOURS else ())
        for name, course in courses().items()
    ],
)
def test_an_alert_lasts_as_long_as_the_trouble(tmp_path: Path, name: str) -> None:
    course = courses()[name]
    query = f'count(ALERTS{{alertname="{course.alert}",alertstate="firing"}}) or vector(0)'
    questions = [Question(query, f"{round(60 * hours)}m", {"{}": number}) for hours, number in course.firing.items()]
    story = Story(labelled(course.series, "amd"), questions, scraped_every=STEP)
    assert_answers(tmp_path, needed_by(course.alert), [story], evaluated_every=STEP)
