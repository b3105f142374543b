"""Scenes for alerts, each in its own cluster, so that one run of promtool evaluates all of them."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grafana.alert_nodes import Node, all_of
from grafana.promtool import Group, Sample, Series, answers, needed_by

# Minutes: the first ones after a start, before the turn, soon after it, and long after it.
ALWAYS = (1, 3, 6, 12, 20, 29, 31, 32, 34, 38, 45, 62)
LATER = (62,)
# Contains a restart, and a card that is lost all the time.
AROUND_A_RESTART = (29, 31, 32, 33, 34, 62)
QUIET: Mapping[str, int] = {}


@dataclass(frozen=True)
class Scene:
    """Nodes, and the number of firing alerts of each name at these minutes."""

    nodes: tuple[Node, ...]
    firing: Mapping[str, int]
    minutes: tuple[int, ...] = LATER
    # In these scenes all series of a node are played; in others only those of its cards and of the scene.
    is_full: bool = False


def within(cluster: str, series: Series) -> dict[str, str]:
    return {
        name.replace('cluster="', f'cluster="{cluster}/')
        if 'cluster="' in name
        else name.replace("{", f'{{cluster="{cluster}",', 1): values
        for name, values in series.items()
    }


def by_cluster(samples: Iterable[Sample]) -> Mapping[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for labels, value in samples:
        counted = found.setdefault(labels["cluster"].partition("/")[0], Counter())
        counted[labels["alertname"]] += int(value)
    return found


# Series that are the same on all cards of most scenes.
_USUAL = re.compile(
    "accelerator_(clock|ecc|fan|health|link|memory_activity|memory_total|pcie|recovery|remapped|retired|row|throttled)"
)


def series_of(scene: Scene) -> dict[str, str]:
    series = all_of(*scene.nodes)
    if scene.is_full:
        return series
    usual = {(name.partition("{")[0], values) for name, values in Node().series.items() if _USUAL.match(name)}
    return {name: values for name, values in series.items() if (name.partition("{")[0], values) not in usual}


def assert_fires(folder: Path, scenes: Mapping[str, Scene]) -> None:
    firing = {name: dict.fromkeys(scene.minutes, scene.firing) for name, scene in scenes.items()}
    assert_firing(folder, {name: series_of(scene) for name, scene in scenes.items()}, firing)


def assert_firing(
    folder: Path,
    series_of_scenes: Mapping[str, Series],
    firing: Mapping[str, Mapping[int, Mapping[str, int]]],
    rules: Sequence[Group] = (),
    evaluated_every: str = "1m",
) -> None:
    series: dict[str, str] = {}
    for name, of_scene in series_of_scenes.items():
        series |= within(name, of_scene)
    minutes = sorted({minute for of_scene in firing.values() for minute in of_scene})
    query = 'count by (cluster, alertname) (ALERTS{alertstate="firing"})'
    queries = [(query, f"{minute}m") for minute in minutes]
    given = answers(folder, rules or needed_by(), series, queries, evaluated_every)
    found = dict(zip(minutes, map(by_cluster, given), strict=True))
    wrong = [
        f"{name}, minute {minute}: {dict(found[minute].get(name, {}))} fire, not {dict(alerts)}"
        for name, of_scene in firing.items()
        for minute, alerts in of_scene.items()
        if found[minute].get(name, {}) != alerts
    ]
    assert not wrong, "\n".join(wrong)
