"""Alerts of a node in maintenance are held back until the announced end, also while it is off; then they come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from grafana.promtool import Question, Story, assert_told, needed_by
from telemetry_grafana.rules.catalogue import ALERTS

pytestmark = pytest.mark.needs("promtool")

NODE = 'job="telemetry",instance="node1"'
OTHER = 'job="telemetry",instance="node2"'
MIXED = 'job="mixed",instance="node1"'
CARD = f'{NODE},vendor="amd",device="0",id="GPU-0",model="m"'
OTHER_CARD = f'{OTHER},vendor="amd",device="0",id="GPU-0",model="m"'
SECOND_POD = 'job="telemetry-nvidia",instance="node1",vendor="nvidia",device="0",id="GPU-9",model="m"'
ENDS_IN = f"telemetry_maintenance_ends_in_seconds{{{NODE}}}"
UP, BUILD, LOST = f"up{{{NODE}}}", f"telemetry_build_info{{{NODE}}}", f"accelerator_up{{{CARD}}}"
# On at minute 5 for two hours, so that it ends at minute 125.
ON_THEN_DOWN = {ENDS_IN: "_x4 7200-60x5 stale", UP: "1x10 0x300", BUILD: "1x10 stale"}
OTHER_DOWN = {f"up{{{OTHER}}}": "1x10 0x300", f"telemetry_build_info{{{OTHER}}}": "1x10 stale"}
STARTED = f"process_start_time_seconds{{{NODE}}}"


DAY = 24 * 60


@dataclass(frozen=True)
class Course:
    """What happens, and on which instances the alert fires at which minutes."""

    name: str
    alert: str
    series: Mapping[str, str]
    firing: Mapping[int, tuple[str, ...]]
    scraped_every: str = "1m"


COURSES = (
    Course(
        "a node that is off is told after the end, and another one at once",
        "TelemetryDown",
        {**ON_THEN_DOWN, **OTHER_DOWN},
        {60: ("node2",), 124: ("node2",), 130: ("node1", "node2")},
    ),
    Course(
        "it was scraped once only since the announcement",
        "TelemetryDown",
        {**ON_THEN_DOWN, ENDS_IN: "_x9 7200 stale"},
        {60: (), 128: (), 135: ("node1",)},
    ),
    Course(
        "scraped once since the announcement, and gone before the rules were evaluated",
        "TelemetryDown",
        {ENDS_IN: "_x16 3600 stale", UP: "1x16 0x300", BUILD: "1x16 stale"},
        {30: (), 64: (), 71: ("node1",)},
        scraped_every="20s",
    ),
    Course(
        "off for longer than a day, in a job with other exporters",
        "TelemetryDown",
        {
            f"up{{{MIXED}}}": "1x10 0x1800",
            'up{job="mixed",instance="other"}': "1x1810",
            f"telemetry_build_info{{{MIXED}}}": "1x10 stale",
            f"telemetry_maintenance_ends_in_seconds{{{MIXED}}}": "_x4 93600-60x5 stale",
        },
        {60: (), 1560: (), 1570: ("node1",), 1800: ("node1",)},
    ),
    Course(
        "installed anew, it knows of no maintenance, and goes down again",
        "TelemetryDown",
        {ENDS_IN: "_x4 7200-60x5 stale", UP: "1x10 0x20 1x10 0x200", BUILD: "1x10 stale _x19 1x10 stale"},
        {25: (), 60: (), 130: ("node1",)},
    ),
    Course(
        "ended early by the operator",
        "TelemetryDown",
        {ENDS_IN: "_x4 7200-60x5 0-60x3 stale", UP: "1x14 0x100", BUILD: "1x14 stale"},
        {16: (), 20: ("node1",)},
    ),
    Course(
        "made longer, then shorter",
        "TelemetryDown",
        {ENDS_IN: "_x4 600-60x2 7200-60x2 1800-60x2 stale", UP: "1x13 0x100", BUILD: "1x13 stale"},
        {30: (), 40: (), 48: ("node1",)},
    ),
    Course(
        "a card that is lost while the node answers",
        "AcceleratorLost",
        {
            ENDS_IN: "_x4 1800-60x60",
            LOST: "1x10 0x60",
            f"accelerator_up{{{OTHER_CARD}}}": "1x10 0x60",
            f"accelerator_up{{{SECOND_POD}}}": "1x10 0x60",
        },
        {30: ("node2",), 40: ("node1", "node1", "node2")},
    ),
    Course(
        "a textfile that a daemon left behind counts nothing down",
        "AcceleratorLost",
        {ENDS_IN: "_x4 1800-60x5 1500x100", LOST: "1x10 0x100"},
        {30: (), 48: ("node1",), 100: ("node1",)},
    ),
    Course("a fleet of which nothing is left", "TelemetryAbsent", {**ON_THEN_DOWN, **OTHER_DOWN}, {30: ("",)}),
    Course(
        "restarts during the maintenance do not count after it",
        "TelemetryRestarting",
        {ENDS_IN: "_x4 1200-60x130", BUILD: "1x130", STARTED: "1x10 2x2 3x2 4x2 5x2 6x40"},
        {20: (), 30: (), 60: (), 84: ()},
    ),
    Course(
        "restarts without one do",
        "TelemetryRestarting",
        {BUILD: "1x130", STARTED: "1x10 2x2 3x2 4x2 5x2 6x40"},
        {30: ("node1",)},
    ),
)


def test_every_alert_of_a_node_is_held_back() -> None:
    """Those of a whole fleet have no instance and go on."""
    alerts = [alert for group in ALERTS for alert in group.alerts]
    assert {alert.name for alert in alerts if alert.expression == alert.trouble} == {"TelemetryAbsent"}


def asked(alert: str, minute: int, instances: tuple[str, ...]) -> Question:
    query = f'count by (instance) (ALERTS{{alertname="{alert}",alertstate="firing"}})'
    answers = {f'{{instance="{instance}"}}' if instance else "{}": instances.count(instance) for instance in instances}
    return Question(query, f"{minute}m", answers)


def assert_goes(folder: Path, courses: Iterable[Course]) -> None:
    alerts = {course.alert for course in courses}
    stories = [
        Story(
            course.series,
            [asked(course.alert, *item) for item in course.firing.items()],
            course.name,
            course.scraped_every,
        )
        for course in courses
    ]
    assert_told(folder, needed_by(*alerts), stories)


def test_what_fires_when(tmp_path: Path) -> None:
    assert_goes(tmp_path, [course for course in COURSES if max(course.firing) < DAY])


@pytest.mark.long
def test_what_fires_after_a_day(tmp_path: Path) -> None:
    assert_goes(tmp_path, [course for course in COURSES if max(course.firing) >= DAY])
