"""The view of the last half hour shows exactly the stored numbers, and nothing of the present."""

import math
import re
from dataclasses import replace

import pytest

from exporters.frames.seen import after, lines_of
from kits import looked_at
from kits import snapshots as kit
from telemetry_exporters import human
from telemetry_exporters.terminal.frames.keys import with_nodes
from telemetry_exporters.terminal.frames.model import Key, NodeState, Size, State, View
from telemetry_parsers.past import KEPT, SLOTS, Past

SIZE = Size(250, 60)
WORDS = {
    "TEMP": ("temperature_celsius", human.celsius),
    "MEMORY": ("memory_used_bytes", human.byte_size),
    "UTIL": ("utilization_ratio", human.percent),
    "CLOCK": ("clock_hertz", human.hertz),
    "MEM ACT": ("memory_activity_ratio", human.percent),
}


def pressed(state, *keys):
    return after(state, *keys, size=SIZE)


def seen(state, size=SIZE):
    return lines_of(state, size)


def cards(*keys, count=4):
    return pressed(State(nodes=(looked_at.node(count),)), *keys)


@pytest.mark.parametrize(
    ("keys", "back"),
    [
        ((Key.LEFT,), 1),
        ((Key.LEFT,) * 7, 7),
        (("[",), 12),
        ((Key.FAR_LEFT, Key.LEFT), 13),
        (("<", "[", ">"), 12),
        (("[", "[", Key.FAR_RIGHT), 12),
        (("[",) * 11, 132),
        (("[",) * 40, 360),
    ],
)
def test_left_key_shows_the_numbers_of_that_slot(keys, back):
    node = looked_at.node(4)
    lines = seen(cards(*keys))
    shown = {match[1]: line for line in lines if (match := re.match(r"[▸ ]nvidia  (\d+) ", line))}
    assert len(shown) == 4
    for label, line in shown.items():
        series = node.past.devices[f"GPU-{int(label):08d}"]
        slot = SLOTS - back
        power, cap = series["power_watts"].last[slot], series["power_cap_watts"].last[slot]
        if math.isnan(power):
            assert not re.search(r"\d+ (°C|W|GiB|%|MHz)", line)
            continue
        wanted = [words(series[metric].last[slot]) for metric, words in WORDS.values()]
        for text in [*wanted, f"{human.watts(power).removesuffix(' W')} / {human.watts(cap)}"]:
            assert re.search(rf"(?<!\S){re.escape(text)}(?!\S)", line), (text, line)


@pytest.mark.parametrize("view", View)
def test_no_value_of_the_present_is_shown(view):
    """The present has other numbers than any slot: none of them may appear, whatever key was pressed."""
    node = looked_at.node(2)
    now = replace(
        node.snapshot.devices[0],
        readings=(
            kit.reading("temperature_celsius", 33.0, "core"),
            kit.reading("power_watts", 33.0),
            kit.reading("power_cap_watts", 333.0),
            kit.reading("memory_used_bytes", 33.0 * 2**20),
            kit.reading("memory_total_bytes", 333.0 * 2**30),
            kit.reading("utilization_ratio", 0.033),
            kit.reading("fan_ratio", 0.33),
            kit.reading("processes", 33.0),
        ),
    )
    snapshot = replace(node.snapshot, devices=(now,), wall_time=kit.WALL_TIME + 33 * 60)
    for key in [*Key, *"12345srpn[]<>?/m"]:
        state = pressed(State(nodes=(replace(node, snapshot=snapshot),), view=view), "[", key)
        if state.past_time is not None and not state.has_quit:
            text = "\n".join(seen(state))
            assert "33" not in re.sub(r"23:\d\d:\d\d", "", text), key


@pytest.mark.parametrize("view", [View.PROCESSES, View.SOURCES])
def test_missing_history_is_shown_as_not_stored(view):
    lines = seen(State(nodes=(looked_at.node(4),), view=view, past_time=kit.WALL_TIME - 60))
    assert any("not stored" in line for line in lines)


def test_selected_time_stays_while_slots_are_added():
    state = cards("[")
    newer = replace(looked_at.past(4), start=looked_at.START + 60)
    shown = seen(with_nodes(state, (replace(state.nodes[0], past=newer),)))
    assert shown[0] == seen(state)[0]
    assert shown[1].startswith("PAST, 2 min 0 s ago")


@pytest.mark.parametrize("keys", [("n",), (Key.RIGHT,), ("[", Key.FAR_RIGHT, ">"), ("]",)])
def test_right_of_the_newest_slot_is_the_present(keys):
    assert pressed(cards(), Key.LEFT, *keys).past_time is None


def test_without_history_the_view_stays_in_the_present():
    for past in (None, Past(kit.WALL_TIME, 0)):
        state = State(nodes=(replace(looked_at.node(2), past=past),))
        assert pressed(state, Key.LEFT, "[").past_time is None


def test_a_node_that_began_later_has_no_numbers_before():
    young = replace(looked_at.node(1, "young"), past=looked_at.past(1, 12))
    state = pressed(State(nodes=(looked_at.node(1, "old"), young), view=View.NODES), "[", "[")
    old, new = (next(line for line in seen(state) if re.match(rf"[▸ ]{name} ", line)) for name in ("old", "young"))
    assert "°C" in old
    assert "°C" not in new


def test_all_kept_metrics_have_a_chart():
    state = State(nodes=(looked_at.node(1),), view=View.CARD)
    metrics = []
    for _ in KEPT:
        metrics.append(state.metric)
        assert "█" in "".join(seen(state)) or state.metric == "throttled"
        state = pressed(state, "m")
    assert sorted(metrics) == sorted(KEPT)
    assert pressed(state, "M").metric == KEPT[-1]


def test_a_paused_screen_shows_nothing_new():
    state = pressed(State(nodes=(looked_at.node(3),)), "p")
    assert with_nodes(state, (NodeState("other"),)) is state
    assert any(line.startswith("Paused") for line in seen(state))
    assert with_nodes(pressed(state, " "), (NodeState("other"),)).nodes[0].name == "other"
