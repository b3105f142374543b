"""A scene that the alerts look at, and what fires in it, by promtool."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from _pytest.mark import ParameterSet

from grafana.alert_nodes import Node, all_of
from kits.captures import ROOT

RULES = ROOT / "deploy" / "prometheus" / "rules"
FILES = [str(RULES / "telemetry-recording.yml"), str(RULES / "telemetry-alerts.yml")]
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
    samples = [
        {"labels": f'{{alertname="{alert}"}}', "value": number} for alert, number in sorted(scene.firing.items())
    ]
    test = {
        "interval": "1m",
        "input_series": list(all_of(*scene.nodes)),
        "promql_expr_test": [
            {"expr": FIRING, "eval_time": f"{minute}m", "exp_samples": samples} for minute in scene.minutes
        ],
    }
    file = folder / "tests.yml"
    file.write_text(yaml.safe_dump({"rule_files": FILES, "evaluation_interval": "1m", "tests": [test]}))
    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr


def one_in_three(scenes: Iterable[str]) -> list[ParameterSet]:
    """Scenes as parameters, of which `make test` plays every third; test_alerts.py fires each alert."""
    return [pytest.param(name, marks=pytest.mark.rest if number % 3 else ()) for number, name in enumerate(scenes)]
