"""The page, the stream, another node and `top` show the same condition of a fault."""

import json
import re
from collections.abc import Callable, Mapping

import pytest

from kits.planted_faults import FAULTS, NO_FAULTS, node_with
from telemetry_daemon.remote.foreign_documents import to_snapshot
from telemetry_daemon.site.pages import Links, page
from telemetry_exporters.documents import stream_json
from telemetry_exporters.documents.snapshot_json import render
from telemetry_exporters.judgement.verdict import judge
from telemetry_exporters.terminal.frames.frame import frame
from telemetry_exporters.terminal.frames.model import NodeState, Size, State
from telemetry_parsers.model import Snapshot

ALL = {**FAULTS, **NO_FAULTS}
Conditions = Callable[[Snapshot], Mapping[str, str]]


def by_page(node: Snapshot) -> dict[str, str]:
    text = " ".join(
        re.sub(r"<[^>]*>", " ", page(node, Links("/m", "/s", "/p", "/h", "/r")).partition("<h2>Devices")[2]).split()
    )
    ids = sorted((device.id for device in node.devices), key=text.index)
    return {
        device_id: text.partition(device_id)[2].partition(following)[0]
        for device_id, following in zip(ids, [*ids[1:], "Sources"], strict=True)
    }


def by_stream(node: Snapshot) -> dict[str, str]:
    entries = [stream_json.device(device, judge(node)[device.id]) for device in node.devices]
    return {entry["id"]: entry["condition"]["word"] for entry in entries}


def by_another_node(node: Snapshot) -> dict[str, str]:
    there = to_snapshot(json.loads(render(node)))
    return {device_id: findings[0].word for device_id, findings in judge(there).items()}


def by_top(node: Snapshot) -> dict[str, str]:
    shown = frame(State((NodeState("n", node, age_seconds=0.5),)), Size(160, 2 * len(node.devices) + 20))
    lines = ["".join(piece.text for piece in line) for line in shown.lines[1:]]
    return {device.id: next(line for line in lines if device.model in line.split()) for device in node.devices}


@pytest.mark.parametrize("conditions", [by_page, by_stream, by_another_node, by_top])
def test_each_fault_has_the_same_word(conditions: Conditions) -> None:
    node, ids = node_with(ALL)
    words = conditions(node)
    missing = {name: words[ids[name]] for name, fault in ALL.items() if fault.word not in words[ids[name]]}
    assert missing == {}
