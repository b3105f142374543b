"""The cost of a poll and a scrape in calls and memory blocks, which are the same on every machine.

Seconds are measured by `make bench`. Driver calls of each NVML tier are counted in tests/nvml/test_reader_calls.py.
"""

import gc
import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType

import pytest

from kits.fed_node import Load, MadeUpNode
from telemetry_daemon.state.health import PollResult, SourceFacts
from telemetry_exporters.prometheus.renderer import Renderer
from telemetry_parsers.model import Command, Poll, Snapshot

FEW, MANY = 8, 64


def calls_of(work: Callable[[], object]) -> int:
    """Return the number of function calls of a piece of work, including C functions."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def settled(load: Load) -> MadeUpNode:
    """Return a node that has already polled all sources, so that its devices have names."""
    node = MadeUpNode(load)
    for _ in range(3):
        node.poll_all()
    return node


def calls_of_taking_in(load: Load) -> int:
    node = settled(load)
    report = node.report(0)
    return calls_of(lambda: node.put(0, report))


def calls_of_a_page(load: Load) -> int:
    node, renderer = settled(load), Renderer()
    renderer.text(node.store.snapshot())
    node.poll_all()
    return calls_of(lambda: renderer.text(node.store.snapshot()))


@pytest.mark.parametrize(
    ("work", "load", "max_for_a_reading"),
    [
        pytest.param(calls_of_taking_in, Load(MANY, 40), 4.5, id="a poll of one source"),
        pytest.param(calls_of_taking_in, Load(MANY, 40, sources=4), 4.2, id="a poll of one of four sources"),
        pytest.param(calls_of_a_page, Load(MANY, 40), 3.5, id="a page"),
    ],
)
def test_work_grows_with_the_readings_and_no_faster(
    work: Callable[[Load], int], load: Load, max_for_a_reading: float
) -> None:
    """Eight times the devices need at most eight times the calls, and each reading only a few."""
    few, many = work(replace(load, devices=FEW)), work(load)
    assert many <= few * MANY / FEW * 1.05
    assert many <= load.devices * load.readings * max_for_a_reading


@pytest.mark.parametrize(
    ("change", "max_for_a_reading"),
    [
        pytest.param(lambda node, _: (node.poll_all(), node.store.snapshot())[1], 1.6, id="every number is another"),
        pytest.param(lambda _, snapshot: replace(snapshot), 0.16, id="no number is another"),
        pytest.param(lambda _, snapshot: with_other_first_device(snapshot), 14, id="a device is another"),
    ],
)
def test_cost_of_a_page_depends_on_changes(
    change: Callable[[MadeUpNode, Snapshot], Snapshot], max_for_a_reading: float
) -> None:
    """Only changed numbers are formatted; only changed names or labels rebuild the lines."""
    load = Load(MANY, 40)
    node, renderer = settled(load), Renderer()
    renderer.text(node.store.snapshot())
    snapshot = change(node, node.store.snapshot())
    assert calls_of(lambda: renderer.text(snapshot)) <= load.devices * load.readings * max_for_a_reading


def with_other_first_device(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with a changed label of the first device."""
    first, *rest = snapshot.devices
    return replace(snapshot, devices=(replace(first, serial="another"), *rest))


@pytest.mark.parametrize("devices", [FEW, MANY])
def test_tool_that_stays_missing_costs_little(devices: int) -> None:
    """A node looks for a dozen tools every minute, however many devices it has. Only the first failure merges its reports."""
    node = settled(Load(devices))
    node.store.add_source(SourceFacts("tool", "amd", ()))
    tool = Poll("readings", Command("tool", ()), interval=15.0, lists_devices=True)
    node.ingest("tool", None, tool, PollResult("missing"))
    node.now += 1.0
    assert calls_of(lambda: node.ingest("tool", None, tool, PollResult("missing"))) <= 100
    (status,) = (source for source in node.store.snapshot().sources if source.source == "tool")
    assert (status.state, status.polls[0].attempted) == ("missing", node.wall)


def test_polls_and_pages_hold_no_memory() -> None:
    """After hundreds of polls and pages there are as many memory blocks as before."""
    node, renderer = settled(Load(2)), Renderer()

    def work(turns: int) -> int:
        for _ in range(turns):
            node.poll_all()
            renderer.text(node.store.snapshot())
        gc.collect()
        return sys.getallocatedblocks()

    before = work(100)  # the texts of repeated numbers are cached, and all numbers have occurred by now
    assert work(200) - before < 500
