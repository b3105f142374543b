"""Alerts for fully busy cards that hang or are slow; none fires for similar healthy cards."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from grafana.alert_nodes import CARDS, END, Node, all_of, steady
from grafana.full_load_nodes import (
    ALL,
    DECODES,
    HANGS,
    IDLE,
    SLOW,
    SPINS,
    TRAINS,
    Course,
    Work,
    always,
    later,
    seen_before,
    works,
)
from grafana.promtool import ALERTS, RECORDING, groups_of
from grafana.scenes import assert_firing

# test_on_call covers the other troubles of nodes.
PLAYED = re.compile("accelerator_(busy|clock|energy|memory|power|temperature|throttled|utilization)[_{]")
LEFT_OUT = {f"telemetry-{name}" for name in ("monitor", "presence", "broken", "sums", "stragglers", "memories")}
MINUTES = (20, 29, 34, 42, 46, 53, 63)

Nodes = tuple[Node, ...]


def node(name: str = "node1") -> Node:
    return Node(name)


def one_node(course: Course, cards: tuple[int, ...] = tuple(ALL)) -> Nodes:
    """Return a node that trains, except that the given cards follow the course."""
    return (works(works(node(), always(TRAINS)), course, cards),)


def several_nodes(count: int, course: Course, last: Course) -> Nodes:
    names = [f"node{number}" for number in range(1, count + 1)]
    return (*(works(node(name), course) for name in names[:-1]), works(node(names[-1]), last))


def with_values(of: Nodes, values: str, *words: str) -> Nodes:
    for node in of:
        node.reports(values, *words)
    return of


def without(of: Nodes, *words: str) -> Nodes:
    for node in of:
        for name in node.found(*words):
            del node.series[name]
    return of


def partitioned() -> Nodes:
    """Card 3 draws what idle cards draw and reports no utilization; its partition is fully busy and reports no power."""
    (made,) = one_node(always(SPINS), (3,))
    for name in made.found('id="id3"'):
        if name.startswith(("accelerator_utilization", "accelerator_busy")):
            of_part = made.series.pop(name)
            made.series[name.replace('id="id3"', 'id="id3/0"').replace('device="3"', 'device="3:0"')] = of_part
    return (made,)


def turns(work: Work, minutes: int, rest: Work, rest_minutes: int) -> Course:
    return ((minutes, work), (rest_minutes, rest)) * (END // (minutes + rest_minutes) + 1)


IN_PAUSE = replace(TRAINS, busy=0.1, watts=150)
PAUSING = turns(TRAINS, 20, IN_PAUSE, 4)
CAPPED = replace(TRAINS, busy=1, watts=295, hertz=1.1e9, cap=300)
MEMORY_UNKNOWN = replace(TRAINS, activity=None, cap=None)
DECODES_UNSEEN = replace(DECODES, activity=None, cap=None)
SPINS_UNSEEN = replace(SPINS, activity=None, cap=None)

HUNG, SLOWER, NODE_SLOW = "AcceleratorsHung", "AcceleratorSlowerThanPeers", "AcceleratorNodeSlow"
THROTTLED, BRAKE = "AcceleratorThermalThrottling", "AcceleratorPowerBrake"


def healthy() -> dict[str, Nodes]:
    return {
        "idle": one_node(always(IDLE)),
        "decoding for one user": one_node(always(DECODES)),
        "decoding without memory readings": one_node(always(DECODES_UNSEEN)),
        "a power-capped fleet": several_nodes(5, always(CAPPED), always(CAPPED)),
        "one card with a lower cap": one_node(always(CAPPED), (3,)),
        "warm-up, the ranks wait for twenty minutes": one_node(((10, IDLE), (20, HANGS), (END, TRAINS))),
        "a job that pauses": one_node(PAUSING),
        "a rank writes a checkpoint, the others wait": one_node(turns(TRAINS, 10, HANGS, 6)),
        "a hang of twenty minutes": one_node(((20, TRAINS), (20, HANGS), (END, TRAINS))),
        "partitions": partitioned(),
        "cards that report no power": without(
            without(one_node(later(HANGS)), "energy_estimated"), "accelerator_power_watts"
        ),
        "an idle card that is shown as busy": one_node(always(replace(IDLE, busy=1))),
        "lower power at the same clock": one_node(always(replace(TRAINS, watts=430)), (3,)),
        "two cards of four are slow, none is the rule": one_node(always(SLOW), (2, 3)),
    }


def broken() -> dict[tuple[str, int], dict[str, Nodes]]:
    """Return the scenes by alert and number of firing alerts."""
    hot, brake = ("throttled", "hw_thermal", 'id="id3"'), ("throttled", "hw_power_brake")
    return {
        (HUNG, 1): {
            "all cards of a node hang": one_node(later(HANGS)),
            "one card hangs, the others work": one_node(later(SPINS), (3,)),
            "hung since before Prometheus saw it": one_node(always(HANGS)),
            "hung without memory readings and cap": one_node(later(SPINS_UNSEEN, MEMORY_UNKNOWN)),
            "a power-capped fleet hangs": one_node(later(replace(HANGS, cap=300), CAPPED)),
        },
        (SLOWER, 1): {
            "one card is slow": one_node(later(SLOW), (3,)),
            "one card is slow in a job that pauses": (
                works(works(node(), PAUSING), turns(SLOW, 20, IN_PAUSE, 4), (3,)),
            ),
            "one card is slow, and heat held it down before": with_values(
                one_node(((15, replace(SLOW, hertz=8e8)), (END, SLOW)), (3,)), "1x14 0x60", *hot
            ),
        },
        (THROTTLED, 1): {"one card is slow because of heat": with_values(one_node(later(SLOW), (3,)), steady(1), *hot)},
        (NODE_SLOW, 1): {"one node is slow": several_nodes(5, always(TRAINS), later(SLOW))},
        (BRAKE, CARDS): {
            "one node is slow because of the power brake": (
                *several_nodes(4, always(TRAINS), always(TRAINS)),
                *with_values((works(node("node5"), later(SLOW)),), steady(1), *brake),
            )
        },
    }


# A scene of each kind of trouble, and the scenes most similar to one.
QUICK = (
    "decoding without memory readings",
    "one card with a lower cap",
    "a job that pauses",
    "a rank writes a checkpoint, the others wait",
    "a hang of twenty minutes",
    "partitions",
    "lower power at the same clock",
    "all cards of a node hang",
    "one card hangs, the others work",
    "hung without memory readings and cap",
    "one card is slow",
    "one card is slow because of heat",
)


def assert_scenes(folder: Path, is_wanted: Callable[[str], bool], evaluated_every: str) -> None:
    series, firing = {}, {}
    for name, nodes in healthy().items():
        series[name], firing[name] = nodes, {minute: {} for minute in MINUTES}
    for (alert, count), scenes in broken().items():
        series |= scenes
        firing |= {name: {63: {alert: count}} for name in scenes}
    # Each scene also contains a node that was seen before.
    played = {
        name: {
            key: values
            for key, values in {**all_of(*nodes), **seen_before({"job": "accelerators"})}.items()
            if PLAYED.match(key)
        }
        for name, nodes in series.items()
        if is_wanted(name)
    }
    rules = [group for group in groups_of(RECORDING, ALERTS) if group["name"] not in LEFT_OUT]
    assert_firing(folder, played, {name: firing[name] for name in played}, rules, evaluated_every)


@pytest.mark.needs("promtool")
def test_alerts_fire_for_hung_or_slow_cards_only(tmp_path: Path) -> None:
    assert_scenes(tmp_path, lambda name: name in QUICK, "2m")


@pytest.mark.long
@pytest.mark.needs("promtool")
def test_alerts_fire_for_hung_or_slow_cards_only_in_variations(tmp_path: Path) -> None:
    assert_scenes(tmp_path, lambda name: name not in QUICK, "1m")
