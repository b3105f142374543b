"""The kernel's facts about processes on their devices: ranks of any vendor, and memory that no list reports."""

from dataclasses import replace

import pytest

from telemetry_parsers.merge.allocations import find_owners
from telemetry_parsers.model import MergedDevice
from telemetry_parsers.ownership import Process, ProcessUsage, Task

BUS_ID = "0000:03:00.0"


def card(*processes: Process, vendor: str = "amd", bus_id: str = BUS_ID) -> MergedDevice:
    return MergedDevice(vendor, 0, bus_id, "0", "card", bus_id=bus_id, processes=processes)


def put(device: MergedDevice, *tasks: Task) -> MergedDevice:
    found = find_owners((device,), (), {task.pid: task for task in tasks}, 0.0)
    return found.devices[0].apply_to(device)


def ranks(device: MergedDevice) -> list[str]:
    return [reading.label for reading in device.readings if reading.metric == "rank_info"]


@pytest.mark.parametrize("vendor", ["nvidia", "amd", "mthreads", "cambricon"])
def test_the_ranks_of_its_processes_are_on_a_card_of_any_vendor(vendor):
    """Children of a rank inherit its variables."""
    device = card(Process(0, 70, ""), Process(0, 71, ""), Process(0, 72, ""), Process(0, 73, ""), vendor=vendor)
    tasks = (Task(70, 1, rank=11), Task(71, 1, rank=3), Task(72, 1, rank=3), Task(73, 1))
    assert ranks(put(device, *tasks)) == ["3", "11"]


def test_card_has_at_most_sixteen_reported_ranks():
    processes = [Process(0, pid, "") for pid in range(1, 41)]
    assert len(ranks(put(card(*processes), *(Task(process.pid, 1, rank=process.pid) for process in processes)))) == 16
    assert ranks(put(card(*processes))) == []


def test_a_lost_card_has_no_ranks():
    assert ranks(put(replace(card(Process(0, 70, "")), up=False), Task(70, 1, rank=0))) == []


@pytest.mark.parametrize(
    ("listed", "held", "expected"),
    [(None, 5.0, 5.0), (7.0, 5.0, 7.0), (0.0, 5.0, 0.0), (None, None, None)],
)
def test_memory_comes_from_open_files_if_the_list_lacks_it(listed, held, expected):
    device = put(card(Process(0, 70, "", listed)), Task(70, 1, holds=(ProcessUsage(BUS_ID, held),)))
    assert device.processes[0].memory_used_bytes == expected


def test_memory_held_on_another_card_is_not_counted():
    device = put(card(Process(0, 70, "")), Task(70, 1, holds=(ProcessUsage("0000:04:00.0", 5.0),)))
    assert device.processes[0].memory_used_bytes is None


def test_partitions_do_not_get_the_memory_held_on_the_whole_card():
    parts = [replace(card(Process(0, 70, "")), id=name, device=name) for name in ("a", "b")]
    found = find_owners(parts, (), {70: Task(70, 1, holds=(ProcessUsage(BUS_ID, 5.0),))}, 0.0)
    assert [of_one.processes[0].memory_used_bytes for of_one in found.devices] == [None, None]
