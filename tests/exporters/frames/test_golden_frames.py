"""Frames as people see them: read a golden file before it is accepted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kits import looked_at
from kits import snapshots as kit
from telemetry_exporters.frames.frame import frame
from telemetry_exporters.frames.glyphs import ASCII
from telemetry_exporters.frames.model import Look, NodeState, Size, State, View

FOLDER = Path(__file__).parent / "golden"
SIZES = (Size(40, 10), Size(80, 24), Size(120, 40), Size(250, 60))


def node_state(cards, **parts):
    """A state that looks at a node with so many cards."""
    return State(nodes=(looked_at.node(cards),), title="daemon on this machine", **parts)


def owned_state(view, wanted=""):
    """A state that looks at a node whose cards have owners, at those of some of them."""
    looks = {view: Look(wanted, "OWNER")} if wanted else {}
    return State(
        nodes=(looked_at.owned(),), title="daemon on this machine", view=view, card="GPU-00000002", looks=looks
    )


def nodes_state(count):
    """So many nodes; the second is silent, the third was never heard."""
    nodes = [looked_at.node(1 + number % 3 * 3, f"gpu{number:03d}") for number in range(count)]
    if count > 2:
        nodes[1] = replace(nodes[1], trouble="no answer within 5 s", age_seconds=95.0)
        nodes[2] = NodeState("gpu002", trouble="connection refused")
    return State(nodes=tuple(nodes), title="nodes.txt", view=View.NODES)


PAST = kit.WALL_TIME - 790.0
STATES = {
    "cards-1": node_state(1),
    "cards-8": node_state(8),
    "cards-128": node_state(128),
    "cards-128-end": node_state(128, card="GPU-00000127"),
    "cards-8-past": node_state(8, moment=PAST),
    "cards-8-ascii": node_state(8, glyphs=ASCII),
    "cards-128-sorted": node_state(128, looks={View.CARDS: Look("nvidia 1", "POWER / CAP")}, is_typing=True),
    "cards-silent": State(nodes=(replace(looked_at.node(8), trouble="connection refused", age_seconds=35.0),)),
    "cards-none": State(nodes=(NodeState("", kit.snapshot(sources=(kit.source(state="missing"),)), None),)),
    "card": node_state(8, view=View.CARD, card="GPU-00000003"),
    "card-gap-past": node_state(8, view=View.CARD, card="GPU-00000002", metric="power_watts", moment=PAST),
    "card-events": node_state(8, view=View.CARD, card="GPU-00000000"),
    "processes-8": node_state(8, view=View.PROCESSES),
    "processes-128": node_state(128, view=View.PROCESSES),
    "processes-past": node_state(8, view=View.PROCESSES, moment=PAST),
    "owners-cards": owned_state(View.CARDS, "alice"),
    "owners-card": owned_state(View.CARD),
    "owners-processes": owned_state(View.PROCESSES, "1234"),
    "owners-past": replace(owned_state(View.CARDS), moment=PAST),
    "sources": node_state(8, view=View.SOURCES),
    "help": node_state(8, view=View.HELP),
    "nodes-1": nodes_state(1),
    "nodes-8": nodes_state(8),
    "nodes-128": nodes_state(128),
    "nodes-8-past": replace(nodes_state(8), moment=PAST),
}


def page(state, size):
    """The frame as text, with its size above it; the line in reverse has a > before it."""
    shown = frame(state, size)
    lines = ["".join(piece.text for piece in line).rstrip() for line in shown.lines]
    marked = [(">" if place == shown.selected else "|") + line for place, line in enumerate(lines)]
    return "\n".join([f"{size.columns} × {size.rows}", *marked, ""])


@pytest.mark.parametrize("name", STATES)
def test_a_frame_is_as_it_was_read(name, assert_golden):
    assert_golden(FOLDER / f"{name}.txt", "\n".join(page(STATES[name], size) for size in SIZES))
