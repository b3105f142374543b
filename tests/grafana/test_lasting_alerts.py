"""An alert lasts as long as its trouble: days later it still fires, and it ends when the trouble does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from grafana.alert_cases import Series, labelled, of_card
from grafana.promtool import Question, Story, assert_told, needed_by

DAY = 24 * 12
STEP = "5m"


@dataclass(frozen=True)
class Course:
    """Series in steps of five minutes, and at which hours how many alerts of that name fire."""

    alert: str
    series: Series
    firing: Mapping[float, int]


def days(number: float) -> int:
    """So many days in steps."""
    return int(DAY * number)


HOT = {'accelerator_temperature_celsius{D,sensor="edge"}': f"75x{days(2)}"}
RENUMBERED = 'accelerator_link_up{V,device="7",id="an id",model="m",link="0"}'
OTHER_CARD = 'accelerator_up{V,device="1",id="other",model="m"}'
MEMORY = "telemetry_remembers_since_timestamp_seconds{T}"
LINK = 'accelerator_link_up{D,link="0"}'
OTHERS_TARGET = 'up{job="telemetry",instance="another"}'
COURSES = {
    "a link is down for nine days, and up again": Course(
        "AcceleratorLinkDown", {LINK: f"1x10 0x{days(9)} 1x20"}, {2: 1, 48: 1, 215: 1, 218: 0}
    ),
    "a link is down, and its node is off for five days": Course(
        "AcceleratorLinkDown", {LINK: f"1x10 0x10 _x{days(5)} 0x{days(2)}"}, {1.5: 1, 60: 0, 130: 1, 160: 1}
    ),
    "a link is down, and its card gets another number": Course(
        "AcceleratorLinkDown",
        {LINK: "1x10 0x20 stale", RENUMBERED: f"_x34 0x{days(1)}"},
        {2: 1, 4: 1, 24: 1},
    ),
    "a link that was never up": Course("AcceleratorLinkDown", {LINK: f"0x{days(2)}"}, {2: 0, 26: 0}),
    "a node is off for days, among targets of others": Course(
        "TelemetryDown",
        {
            "up{T}": f"1x10 0x{days(3)} 1x20",
            "telemetry_build_info{T}": f"1x10 _x{days(3)} 1x20",
            OTHERS_TARGET: f"1x{days(4)}",
        },
        {2: 1, 48: 1, 72: 1, 74: 0},
    ),
    "a node was taken out of the targets": Course(
        "TelemetryDown",
        {"up{T}": "1x10 0x10", "telemetry_build_info{T}": "1x10", OTHERS_TARGET: f"1x{days(2)}"},
        {1.5: 1, 3: 0, 30: 0},
    ),
    "a cluster is cut off for a week": Course(
        "TelemetryAbsent",
        {
            'up{T,cluster="a"}': "1x10",
            'telemetry_build_info{T,cluster="a"}': "1x10",
            'up{T,cluster="b"}': f"1x{days(9)}",
            'telemetry_build_info{T,cluster="b"}': f"1x{days(9)}",
        },
        {2: 1, 48: 1, 167: 1, 170: 0},
    ),
    "a card has no readings for days, and is lost": Course(
        "TelemetryReadingsGone",
        {"accelerator_power_watts{D}": "90x10", "accelerator_up{D}": f"1x{days(3)} 0x20"},
        {2: 1, 48: 1, 71: 1, 73: 0},
    ),
    "a fan stands still for days": Course(
        "AcceleratorFanStopped", {**HOT, "accelerator_fan_ratio{D}": f"0.4x10 0x{days(2)}"}, {2: 1, 12: 1, 26: 1}
    ),
    "a fan that was said to turn for a moment": Course(
        "AcceleratorFanStopped", {**HOT, "accelerator_fan_ratio{D}": f"0x10 0.2 0x{days(2)}"}, {2: 0, 24: 0}
    ),
    "a fan of which the first value was wrong": Course(
        "AcceleratorFanStopped", {**HOT, "accelerator_fan_ratio{D}": f"0.2 0x{days(2)}"}, {2: 0, 24: 0}
    ),
    "a link that was said to be up at first": Course("AcceleratorLinkDown", {LINK: f"1 0x{days(2)}"}, {2: 0, 26: 0}),
    "a card hangs after nothing was scraped for two days": Course(
        "AcceleratorsHung",
        {
            **of_card("accelerator_utilization_ratio", "0", f"0x10 0.9x10 _x{days(2)} 1x20"),
            **of_card("accelerator_power_watts", "0", f"75x10 600x10 _x{days(2)} 80x20"),
        },
        {49.5: 0, 51: 1},
    ),
    "a card comes and goes every twenty minutes, and stays": Course(
        "AcceleratorFlapping", {"accelerator_up{D}": "1x12 " + "0x3 1x3 " * 20}, {3: 1, 5: 1, 8: 1, 10: 1, 15: 0}
    ),
    "what was forgotten with the daemon's memory is not asked for after a week": Course(
        "AcceleratorsFewerThanBefore",
        {
            "accelerator_up{D}": f"1x{days(9)}",
            OTHER_CARD: "1x9 stale",
            "telemetry_build_info{T}": f"1x{days(9)}",
            MEMORY: f"3x10 3300x{days(9)}",
        },
        {2: 1, 48: 1, 165: 1, 170: 0},
    ),
    "a card went with the daemon's memory, which is lost each hour": Course(
        "AcceleratorsFewerThanBefore",
        {
            "accelerator_up{D}": f"1x{days(1)}",
            OTHER_CARD: "1x35 stale _x215 1x40",
            "telemetry_build_info{T}": f"1x{days(1)}",
            MEMORY: " ".join(f"{hour}x11" for hour in range(3, 30)),
        },
        {2.5: 0, 4: 1, 8: 1, 20: 1, 22: 0, 23.5: 0},
    ),
}

pytestmark = pytest.mark.needs("promtool")


def is_long(course: Course) -> bool:
    return max(course.firing) > 48


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if is_long(COURSES[name]) else ()) for name in COURSES]
)
def test_an_alert_lasts_as_long_as_the_trouble(tmp_path: Path, name: str) -> None:
    course = COURSES[name]
    query = f'count(ALERTS{{alertname="{course.alert}",alertstate="firing"}}) or vector(0)'
    questions = [Question(query, f"{round(60 * hours)}m", {"{}": number}) for hours, number in course.firing.items()]
    story = Story(labelled(course.series, "amd"), questions, scraped_every=STEP)
    assert_told(tmp_path, needed_by(course.alert), [story], evaluated_every=STEP)
