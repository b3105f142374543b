"""What a page may show of owners besides their own metrics: processes, and labels of the owner on the series of its card."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kits import snapshots as kit
from kits.page_lint import complaints
from telemetry_exporters.families import OwnerSeries
from telemetry_exporters.prometheus import Renderer, text_page
from telemetry_parsers.metrics import CATALOGUE, OWNER_LABELS
from telemetry_parsers.model import Process

PROCESSES = OwnerSeries(process_metrics=True)
INLINE = OwnerSeries(inline_labels=("user", "job_id"))
IDENTITY = 'device="0",id="GPU-00000000",model="NVIDIA H100 80GB HBM3"'


def lines_of(snapshot, name, of_owners):
    page = text_page(snapshot, of_owners=of_owners).decode()
    return [line for line in page.splitlines() if line.startswith(f"{name}{{")]


def process_lines(*processes):
    snapshot = kit.snapshot(kit.full_device(processes=processes))
    return lines_of(snapshot, "accelerator_process_memory_bytes", PROCESSES)


def test_each_process_has_its_memory_with_program_and_user():
    assert process_lines(kit.process(memory=9.0), Process(0, 17, "", 5.0), Process(0, 18, "no memory told")) == [
        f'accelerator_process_memory_bytes{{{IDENTITY},name="python3",pid="4711",user="alice",vendor="nvidia"}} 9.0',
        f'accelerator_process_memory_bytes{{{IDENTITY},pid="17",vendor="nvidia"}} 5.0',
    ]


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("/opt/bin/python train.py --password=hunter2", "python"),
        ("python train.py --password=hunter2", "python"),
        ("", None),
    ],
)
def test_what_a_tool_says_of_a_process_is_cut_to_its_program(told, name):
    (line,) = process_lines(Process(0, 17, told, 5.0))
    assert "hunter2" not in line
    assert (f',name="{name}",' in line) == (name is not None)


def test_the_sixteen_largest_are_told_and_the_others_as_one():
    lines = process_lines(*(Process(0, pid, "python3", float(pid)) for pid in range(1, 41)))
    assert len(lines) == 17
    assert [f'pid="{pid}"' in line for pid, line in zip(range(40, 24, -1), lines, strict=False)] == [True] * 16
    assert (
        lines[-1] == f'accelerator_process_memory_bytes{{{IDENTITY},name="others",vendor="nvidia"}} {sum(range(25))}.0'
    )


def test_a_process_that_a_part_of_a_card_lists_counts_there():
    card = kit.full_device(processes=(Process(0, 17, "a", 5.0), Process(0, 18, "b", 7.0)))
    part = kit.device(1, parent=card.id, processes=(Process(0, 17, "a", 5.0),))
    lines = lines_of(kit.snapshot(card, part), "accelerator_process_memory_bytes", PROCESSES)
    assert [(line.partition('device="')[2][0], line.partition('pid="')[2][:2]) for line in lines] == [
        ("0", "18"),
        ("1", "17"),
    ]


def test_processes_are_told_where_that_was_asked_for_and_gone_with_the_next_page():
    snapshot = kit.snapshot(kit.shared_device())
    assert b"accelerator_process_memory_bytes" not in text_page(snapshot)
    renderer = Renderer(of_owners=PROCESSES)
    assert b'pid="4711"' in renderer.text(snapshot)
    assert b'pid="4711"' not in renderer.text(kit.snapshot(kit.full_device()))


def test_a_card_with_one_owner_has_its_labels_and_no_other_card_has():
    one = kit.full_device(0, allocations=(kit.allocation(),))
    snapshot = kit.snapshot(one, kit.shared_device(1), kit.full_device(2))
    for metric in ("accelerator_power_watts", "accelerator_up", "accelerator_clock_hertz"):
        lines = lines_of(snapshot, metric, INLINE)
        assert ['job_id="1234"' in line and 'user="alice"' in line for line in lines] == [True, False, False]
        assert not any("account" in line for line in lines)
    assert "alice" not in "".join(lines_of(snapshot, "accelerator_info", INLINE))
    assert "alice" not in "".join(lines_of(snapshot, "accelerator_power_watts", OwnerSeries()))


def test_the_labels_go_with_the_owner():
    renderer = Renderer(of_owners=INLINE)
    owned, free = kit.full_device(allocations=(kit.allocation(),)), kit.full_device()
    pages = [renderer.text(kit.snapshot(device)) for device in (owned, free, owned)]
    assert [b'accelerator_power_watts{device="0",id="GPU-00000000",job_id="1234"' in page for page in pages] == [
        True,
        False,
        True,
    ]


def test_no_metric_of_a_device_has_a_label_of_an_owner_already():
    own = {metric.label for metric in CATALOGUE if metric.scope == "device"}
    assert not own.intersection(OWNER_LABELS["accelerator_allocation_seconds_total"])


@given(
    snapshot=kit.snapshots(),
    inline=st.lists(st.sampled_from(OWNER_LABELS["accelerator_allocation_seconds_total"]), unique=True),
)
@settings(max_examples=20)
def test_of_any_snapshot_the_page_stays_whole(snapshot, inline):
    page = text_page(snapshot, of_owners=OwnerSeries(process_metrics=True, inline_labels=tuple(inline)))
    allowed = [one for one in complaints(page) if ": labels [" not in one and "more than one label" not in one]
    assert allowed == []
