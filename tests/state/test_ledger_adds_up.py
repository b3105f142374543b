"""All that owners had, and what nobody had, is the machine's: for any course of a node, and without growing."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kits.billed_node import Node, has, job
from telemetry_daemon.state.ledger import MOST_WAITING
from telemetry_parsers.model import MergedReading
from telemetry_parsers.ownership import Claim

STEPS = st.lists(
    st.tuples(
        st.sampled_from([0.5, 1.0, 2.0, 3.9, 4.1, 30.0]),
        st.one_of(st.none(), st.floats(0, 1000)),
        st.sampled_from(["nvml", "dcgm"]),
        st.lists(
            st.tuples(st.sampled_from("abcd"), st.sampled_from([0.1, 0.25, 1 / 3]), st.floats(-60, 0)), max_size=3
        ),
        st.sampled_from(["", "", "", "restart", "gone", "ended", "step"]),
    ),
    max_size=60,
)


@given(STEPS)
@settings(max_examples=60, deadline=None)
def test_all_owners_and_nobody_add_up_to_the_device_s_own_counters(steps):
    node, before, told, begun = Node(), 0.0, {}, {}
    watched, is_there = 0.0, False
    for elapsed, value, source, owners, what in steps:
        node.now += elapsed
        shares = {name: (share, ago) for name, share, ago in owners}
        begun = {name: begun.get(name, node.wall + ago) for name, (_, ago) in shares.items()}
        node.gives(*(has(job(name), share, begun[name]) for name, (share, _) in shares.items()))
        if what == "restart":
            before += counted(node)
            node = node.restarted(5.0)
            told, is_there = {}, False
        node.wall_ahead += 100.0 if what == "step" else 0.0
        node.claims = tuple(Claim(job(name), ended=node.wall - 1.0) for name in "abcd") if what == "ended" else ()
        readings = () if value is None else (MergedReading("power_watts", "", value, source, node.now, 2.0),)
        node.see([] if what == "gone" else [replace(node.device("GPU-a"), readings=readings)])
        watched += elapsed if is_there and what != "gone" else 0.0
        is_there = what != "gone"
        now = node.ledger.counters("GPU-a")
        assert all(now[key].seconds >= told[key].seconds for key in now.keys() & told.keys())
        told = now
    records = node.ends()
    assert sum(record.seconds for record in records) == pytest.approx(watched, rel=1e-9)
    total = sum(record.energy_joules or 0.0 for record in records)
    assert total == pytest.approx(before + counted(node), rel=1e-9, abs=1e-6)


def counted(node: Node) -> float:
    device = replace(node.device("GPU-a"), readings=(MergedReading("power_watts", "", 0.0, "nvml", node.now, 2.0),))
    (device,) = node.accumulator.with_counters([device])
    return sum(
        float(reading.value)  # type: ignore[arg-type]  # this one is always a number
        for reading in device.readings
        if reading.metric == "energy_estimated_joules_total"
    )


def test_hundreds_of_job_changes_leave_nothing_behind():
    node = Node()

    def change(first: int) -> None:
        for number in range(first, first + 100):
            node.gives(has(job(str(number)), started=node.wall))
            node.runs(4)
        node.gives()
        node.runs(70)
        assert len(node.kept().jobs) == 1
        assert len(node.records) == 100
        node.records.clear()
        gc.collect()

    change(0)
    tracemalloc.start()
    change(100)
    change(200)
    held = tracemalloc.get_traced_memory()[0]
    change(300)
    grown = tracemalloc.get_traced_memory()[0] - held
    tracemalloc.stop()
    assert grown < 10_000


def test_many_that_go_at_once_do_not_wait_together():
    node = Node()
    for number in range(MOST_WAITING + 50):
        node.gives(has(job(str(number))))
        node.now += 0.1
        node.poll()
    assert len(node.kept().jobs) <= MOST_WAITING + 3
