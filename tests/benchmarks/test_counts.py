"""What a poll and a scrape cost, in counts that are the same on every machine: steps, memory blocks, processes, renders.

Seconds are measured by `make bench`. Driver calls of each NVML tier are counted in tests/nvml/test_reader_calls.py.
"""

import gc
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType

import pytest

from kits.daemon import Daemon
from kits.fake_mthreads_gmi import TABLE
from kits.fake_tools import ToolFolder
from kits.fed_node import Load, MadeUpNode
from telemetry_daemon.site.routes import Site
from telemetry_daemon.web.messages import Request
from telemetry_exporters.prometheus.renderer import Renderer
from telemetry_parsers.model import Snapshot
from telemetry_parsers.vendors.moorethreads.mthreads_gmi import PARSER

TOOL = "mthreads-gmi"
FEW, MANY = 8, 64


def steps_of(work: Callable[[], object]) -> int:
    """How many lines of Python a piece of work runs: its CPU time without the machine."""
    run = 0

    def count(_frame: FrameType, event: str, _argument: object) -> object:
        nonlocal run
        run += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        work()
    finally:
        sys.settrace(before)
    return run


def calls_of(work: Callable[[], object]) -> int:
    """How many functions a piece of work calls, those of C among them."""
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
    """A node whose devices have their names, and whose reports have come before."""
    node = MadeUpNode(load)
    for _ in range(3):
        node.poll_all()
    return node


def steps_of_taking_in(load: Load) -> int:
    node = settled(load)
    report = node.report(0)
    return steps_of(lambda: node.put(0, report))


def steps_of_a_page(load: Load) -> int:
    node, renderer = settled(load), Renderer()
    renderer.text(node.store.snapshot())
    node.poll_all()
    return steps_of(lambda: renderer.text(node.store.snapshot()))


@pytest.mark.parametrize(
    ("work", "load", "max_for_a_reading"),
    [
        pytest.param(steps_of_taking_in, Load(MANY, 40), 18, id="a poll of one source"),
        pytest.param(steps_of_taking_in, Load(MANY, 40, sources=4), 15, id="a poll of one of four sources"),
        pytest.param(steps_of_a_page, Load(MANY, 40), 11, id="a page"),
    ],
)
def test_work_grows_with_the_readings_and_no_faster(
    work: Callable[[Load], int], load: Load, max_for_a_reading: int
) -> None:
    """Eight times the devices, at most eight times the steps; and few for each reading."""
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
def test_a_page_costs_what_has_changed(
    change: Callable[[MadeUpNode, Snapshot], Snapshot], max_for_a_reading: float
) -> None:
    """One text for each number that changed; only other names or labels rebuild the lines."""
    load = Load(MANY, 40)
    node, renderer = settled(load), Renderer()
    renderer.text(node.store.snapshot())
    snapshot = change(node, node.store.snapshot())
    assert calls_of(lambda: renderer.text(snapshot)) <= load.devices * load.readings * max_for_a_reading


def with_other_first_device(snapshot: Snapshot) -> Snapshot:
    """The snapshot with a label of one device changed."""
    first, *rest = snapshot.devices
    return replace(snapshot, devices=(replace(first, serial="another"), *rest))


def test_polls_and_scrapes_leave_nothing_behind() -> None:
    """Hundreds of polls and pages later there are as many memory blocks as before."""
    node, renderer = settled(Load(2)), Renderer()

    def work(turns: int) -> int:
        for _ in range(turns):
            node.poll_all()
            renderer.text(node.store.snapshot())
        gc.collect()
        return sys.getallocatedblocks()

    before = work(100)  # numbers that come again are kept as text; by now they have all come
    assert work(200) - before < 500


def held_blocks(devices: int) -> int:
    """The memory blocks of a store with one node's readings and of the page that it rendered."""
    gc.collect()
    before = sys.getallocatedblocks()
    node, renderer = settled(Load(devices)), Renderer()
    page = renderer.text(node.store.snapshot())
    gc.collect()
    assert page
    return sys.getallocatedblocks() - before


def test_memory_grows_with_the_devices_and_no_faster() -> None:
    held_blocks(FEW)  # what is made once is there
    # With fewer devices all places are numbers below 257, of which Python has one each.
    few, many = held_blocks(2 * FEW), held_blocks(MANY)
    assert few * 2 < many <= few * MANY / (2 * FEW) * 1.05
    # And the three readings of a card's peak.
    assert many <= MANY * 63 * 11


def test_a_scrape_of_a_known_snapshot_does_not_look_at_its_readings() -> None:
    """However many devices there are, a further scrape takes the same few steps."""

    def steps_with(devices: int) -> int:
        node = settled(Load(devices))
        site = Site(node.store.snapshot, lambda: (True, ""), lambda _syntax: b"")
        scrape = Request("GET", "/metrics", "", {"accept-encoding": "gzip"})
        first = site.respond(scrape)
        steps = steps_of(lambda: site.respond(scrape))
        assert site.respond(scrape).body[0] is first.body[0]
        return steps

    assert steps_with(MANY) == steps_with(FEW) < 130


def test_a_daemon_starts_one_process_for_a_poll_and_none_for_a_scrape(tmp_path: Path) -> None:
    tools = ToolFolder(tmp_path / "tools")
    tools.prints(TOOL, TABLE)
    config = f"[sources.{TOOL}]\ninterval = 86400\n"
    with Daemon(tmp_path, config, environment={"PATH": tools.search_path}) as running:
        polls = {poll.name for poll in PARSER.polls}
        running.until(
            lambda: polls == {poll["poll"] for poll in running.source(TOOL).get("polls", ()) if poll["state"] == "ok"}
        )
        for _ in range(5):
            running.page()
        assert len(tools.calls(TOOL)) == len(polls)
