"""The scores of stragglers: one card that is off stands out among few as among many, and alike cards do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from grafana.promtool import RECORDING, Question, Series, Story, assert_told, groups_of

SCORE = "accelerator:temperature_celsius:zscore"

pytestmark = pytest.mark.needs("promtool")


def heat(celsius: Sequence[float], vendor: str = "nvidia") -> dict[str, str]:
    """A card for each temperature."""
    labels = 'job="j",instance="n",vendor="{}",device="{}",id="{}",model="m",sensor="core"'
    return {
        f"accelerator_temperature_celsius{{{labels.format(vendor, n, n)}}}": f"{value}x10"
        for n, value in enumerate(celsius)
    }


def ask(tmp_path: Path, series: Series, answers: Mapping[str, float]) -> None:
    """What queries answer after five minutes."""
    questions = [Question(query, "5m", {"{}": value}) for query, value in answers.items()]
    assert_told(tmp_path, groups_of(RECORDING), [Story(series, questions)])


@pytest.mark.parametrize("vendor", ["nvidia", "ascend"])
@pytest.mark.parametrize("peers", [3, 7, 15])
def test_one_hot_card_stands_out_among_few_and_among_many(tmp_path: Path, vendor: str, peers: int) -> None:
    usual = [60 + n % 3 for n in range(peers)]
    answers = {f"count({SCORE} > 5)": 1, f"count({SCORE} <= 3)": peers, f'count({SCORE}{{device="{peers}"}} > 5)': 1}
    ask(tmp_path, heat([*usual, 90], vendor), answers)


def test_cards_that_are_nearly_alike_have_no_straggler(tmp_path: Path) -> None:
    ask(tmp_path, heat([60, 60, 60, 60, 60, 62]), {f"max(abs({SCORE})) <= 1": 1})


def test_two_cards_have_no_peers(tmp_path: Path) -> None:
    ask(
        tmp_path,
        heat([60, 90]),
        {f"count({SCORE}) or vector(0)": 0, "count(accelerator:temperature_celsius:deviation)": 2},
    )


def test_cards_of_another_model_are_no_peers(tmp_path: Path) -> None:
    ask(tmp_path, heat([60, 61, 62]) | heat([90, 91, 92], "amd"), {f"max(abs({SCORE})) < 2": 0.5})
