"""Golden files of frames. Read a changed file before you accept it."""

from dataclasses import replace
from pathlib import Path

import pytest

from kits import looked_at
from kits import snapshots as kit
from telemetry_exporters.terminal.frames.drawing import ASCII
from telemetry_exporters.terminal.frames.frame import frame
from telemetry_exporters.terminal.frames.model import NodeState, RunningProcess, Size, State, View, ViewOptions

FOLDER = Path(__file__).parent / "golden"
SIZES = (Size(40, 10), Size(80, 24), Size(120, 40), Size(250, 60))


def node_state(cards, **parts):
    return State(nodes=(looked_at.node(cards),), title="daemon on this machine", **parts)


def owned_state(view, wanted=""):
    options = {view: ViewOptions(wanted, "OWNER")} if wanted else {}
    return State(
        (looked_at.owned(),), "daemon on this machine", view=view, card="GPU-00000002", options_by_view=options
    )


def nodes_state(count):
    nodes = [looked_at.node(1 + number % 3 * 3, f"gpu{number:03d}") for number in range(count)]
    if count > 2:
        nodes[1] = replace(nodes[1], trouble="no answer within 5 s", age_seconds=95.0)
        nodes[2] = NodeState("gpu002", trouble="connection refused")
    return State(nodes=tuple(nodes), title="nodes.txt", view=View.NODES)


def busy_state(wanted=""):
    """Return a state that shows a node with readable processes and host readings."""
    node = looked_at.owned()
    host = (
        kit.reading("telemetry_host_cpu_utilization_ratio", 0.37),
        kit.reading("telemetry_host_memory_used_bytes", 210.0 * 2**30),
        kit.reading("telemetry_host_memory_total_bytes", 1024.0 * 2**30),
        *(kit.reading(f"telemetry_host_load{minutes}", 40.25 - minutes) for minutes in (1, 5, 15)),
    )
    running = {4000 + number: RunningProcess(f"python3 train.py --rank {number}", 0.98 + number) for number in range(8)}
    node = replace(node, snapshot=replace(node.snapshot, host=host), running=running)
    return State(nodes=(node,), title="daemon on this machine", options_by_view={View.CARDS: ViewOptions(wanted)})


PAST = kit.WALL_TIME - 790.0
SORTED = {View.CARDS: ViewOptions("nvidia 1", "POWER / CAP")}
STATES = {
    "cards-1": lambda: node_state(1),
    "cards-8": lambda: node_state(8),
    "cards-128": lambda: node_state(128),
    "cards-128-end": lambda: node_state(128, card="GPU-00000127"),
    "cards-8-past": lambda: node_state(8, past_time=PAST),
    "cards-8-ascii": lambda: node_state(8, glyphs=ASCII),
    "cards-128-sorted": lambda: node_state(128, options_by_view=SORTED, is_typing=True),
    "cards-silent": lambda: State(nodes=(replace(looked_at.node(8), trouble="connection refused", age_seconds=35.0),)),
    "cards-busy": busy_state,
    "cards-of-alice": lambda: busy_state("alice"),
    "cards-none": lambda: State(nodes=(NodeState("", kit.snapshot(sources=(kit.source(state="missing"),)), None),)),
    "card": lambda: node_state(8, view=View.CARD, card="GPU-00000003"),
    "card-gap-past": lambda: node_state(8, view=View.CARD, card="GPU-00000002", metric="power_watts", past_time=PAST),
    "card-events": lambda: node_state(8, view=View.CARD, card="GPU-00000000"),
    "processes-8": lambda: node_state(8, view=View.PROCESSES),
    "processes-128": lambda: node_state(128, view=View.PROCESSES),
    "processes-past": lambda: node_state(8, view=View.PROCESSES, past_time=PAST),
    "owners-cards": lambda: owned_state(View.CARDS, "alice"),
    "owners-card": lambda: owned_state(View.CARD),
    "owners-processes": lambda: owned_state(View.PROCESSES, "1234"),
    "owners-past": lambda: replace(owned_state(View.CARDS), past_time=PAST),
    "sources": lambda: node_state(8, view=View.SOURCES),
    "help": lambda: node_state(8, view=View.HELP),
    "nodes-1": lambda: nodes_state(1),
    "nodes-8": lambda: nodes_state(8),
    "nodes-128": lambda: nodes_state(128),
    "nodes-8-past": lambda: replace(nodes_state(8), past_time=PAST),
}


def page(state, size):
    """Return the frame as text below its size; the reversed line is marked with >."""
    shown = frame(state, size)
    lines = ["".join(piece.text for piece in line).rstrip() for line in shown.lines]
    marked = [(">" if number == shown.chosen_row else "|") + line for number, line in enumerate(lines)]
    return "\n".join([f"{size.columns} × {size.rows}", *marked, ""])


@pytest.mark.parametrize("name", STATES)
def test_frames_match_their_golden_files(name, assert_golden):
    state = STATES[name]()
    assert_golden(FOLDER / f"{name}.txt", "\n".join(page(state, size) for size in SIZES))
