"""A scene that the alerts look at, and what fires in it, by promtool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from grafana.alert_nodes import Node, all_of
from grafana.promtool import ALERTS, RECORDING, Question, Story, assert_told, groups_of

FIRING = 'count by (alertname) (ALERTS{alertstate="firing"})'
# Minutes: the first ones after a start, before the turn, soon after it, and long after it.
ALWAYS = (1, 3, 6, 12, 20, 29, 31, 32, 34, 38, 45, 62)
LATER = (62,)
# With a restart in it, and a card that is lost all the while.
AROUND_A_RESTART = (29, 31, 32, 33, 34, 62)


@dataclass(frozen=True)
class Scene:
    """Nodes, and the alerts that fire at these minutes, each with how many there are of it."""

    nodes: tuple[Node, ...]
    firing: Mapping[str, int]
    minutes: tuple[int, ...] = LATER


QUIET: Mapping[str, int] = {}


def assert_fires(folder: Path, scene: Scene) -> None:
    """In this scene these alerts fire, and no others."""
    answers = {f'{{alertname="{alert}"}}': number for alert, number in sorted(scene.firing.items())}
    questions = [Question(FIRING, f"{minute}m", answers) for minute in scene.minutes]
    assert_told(folder, groups_of(RECORDING, ALERTS), [Story(all_of(*scene.nodes), questions)])


def one_in_three(scenes: Iterable[str]) -> list[ParameterSet]:
    """Scenes as parameters, of which `make test` plays every third; test_alerts.py fires each alert."""
    return [pytest.param(name, marks=pytest.mark.long if number % 3 else ()) for number, name in enumerate(scenes)]
