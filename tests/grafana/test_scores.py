"""Scores of stragglers: a deviating card stands out among few or many cards, and similar cards do not."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from grafana.promtool import RECORDING, Question, Story, assert_answers, groups_of

SCORE = "accelerator:temperature_celsius:zscore"

pytestmark = pytest.mark.needs("promtool")


def heat(celsius: Sequence[float], vendor: str = "nvidia") -> dict[str, str]:
    labels = 'job="j",instance="n",vendor="{}",device="{}",id="{}",model="m",sensor="core"'
    return {
        f"accelerator_temperature_celsius{{{labels.format(vendor, n, n)}}}": f"{value}x10"
        for n, value in enumerate(celsius)
    }


def test_deviation_scores_match_the_stories(tmp_path: Path) -> None:
    """The queries are evaluated after five minutes."""
    stories = [
        (
            f"one of {peers + 1} cards is hot",
            heat([*(60 + n % 3 for n in range(peers)), 90], vendor),
            {f"count({SCORE} > 5)": 1, f"count({SCORE} <= 3)": peers, f'count({SCORE}{{device="{peers}"}} > 5)': 1},
        )
        for vendor, peers in (("nvidia", 3), ("ascend", 7), ("nvidia", 15))
    ]
    stories += [
        ("nearly alike", heat([60, 60, 60, 60, 60, 62]), {f"max(abs({SCORE})) <= 1": 1}),
        (
            "two cards have no peers",
            heat([60, 90]),
            {f"count({SCORE}) or vector(0)": 0, "count(accelerator:temperature_celsius:deviation)": 2},
        ),
        (
            "cards of another model are no peers",
            heat([60, 61, 62]) | heat([90, 91, 92], "amd"),
            {f"max(abs({SCORE})) < 2": 0.5},
        ),
    ]
    assert_answers(
        tmp_path,
        groups_of(RECORDING),
        [
            Story(series, [Question(query, "5m", {"{}": value}) for query, value in answers.items()], name)
            for name, series, answers in stories
        ],
    )
