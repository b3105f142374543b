"""MIG: each instance is a device of its own within its card, and the reader follows changes of the layout."""

from pathlib import Path

import pytest

from kits.fake_nvml.library import NODE, FakeNvml
from kits.fake_nvml.reader import Bench, reading, value
from kits.waiting import comes_true
from telemetry_parsers.model import Absent, Report

pytestmark = pytest.mark.needs("cc")
MIG_CONFIG_CHANGE = 0x100
INVALID_ARGUMENT = 2


@pytest.fixture
def mig(tmp_path: Path):
    with reading(FakeNvml(tmp_path, "a100-mig")) as bench:
        yield bench


def partitions(report: Report) -> list[str | None]:
    return [device.partition for device in report.devices if device.parent is not None]


def test_processes_are_asked_of_the_instances(mig: Bench) -> None:
    report = mig.report("processes")
    assert [(process.device, process.pid) for process in report.processes] == [(1, 70311), (2, 70512), (3, 70513)]
    assert mig.fake.calls("nvmlDeviceGetComputeRunningProcesses_v3", 0) == 3


def test_destroyed_instance_disappears_and_the_layout_is_read_again(mig: Bench) -> None:
    mig.report()
    mig.fake.unplug("0/0")
    assert partitions(mig.report()) == ["1", "2"]
    mig.move(5)
    assert partitions(mig.report()) == ["1", "2"]
    assert mig.fake.calls("nvmlInitWithFlags") == 2
    mig.move(5)
    mig.report()
    assert mig.fake.calls("nvmlInitWithFlags") == 2, "once is enough"


def test_an_instance_that_never_answered_does_not_have_the_library_initialised_again(mig: Bench) -> None:
    mig.fake.fail("nvmlDeviceGetMemoryInfo_v2", INVALID_ARGUMENT, "0/0")
    for _ in range(4):
        mig.move(10)
        report = mig.report()
    assert partitions(report) == ["0", "1", "2"]
    assert value(report, "memory_used_bytes", device=1) is Absent.NOT_SUPPORTED
    assert mig.fake.calls("nvmlInitWithFlags") == 1


def test_a_new_instance_is_announced_by_an_event(tmp_path: Path) -> None:
    fake = FakeNvml(tmp_path, "a100-mig")
    fake.unplug("0/1")
    fake.set_answer(0, "nvmlDeviceGetSupportedEventTypes", 0x108)
    with reading(fake) as bench:
        assert partitions(bench.report()) == ["0", "2"]
        fake.plug("0/1")
        fake.event(0, MIG_CONFIG_CHANGE)
        bench.move(5)
        assert comes_true(lambda: partitions(bench.report()) == ["0", "1", "2"])


def test_a_changed_mode_is_noticed_by_the_slow_tier(mig: Bench) -> None:
    mig.report("slow")
    mig.fake.set_answer(0, "nvmlDeviceGetMigMode", 0, 0)
    mig.move(60)
    mig.report("slow")
    assert partitions(mig.report()) == []
    assert mig.fake.calls("nvmlInitWithFlags") == 2


def test_a_layout_that_changed_in_silence_is_noticed_by_the_inventory(mig: Bench) -> None:
    mig.report("inventory")
    mig.fake.set_answer("0/2", "nvmlDeviceGetUUID", "MIG-another")
    mig.move(300)
    mig.report("inventory")
    assert mig.report().devices[3].uuid == "MIG-another"


def test_exchanged_instances_are_noticed_by_the_slow_tier(mig: Bench) -> None:
    before = [device.uuid for device in mig.report().devices]
    mig.fake.set_answer("0/0", "nvmlDeviceGetUUID", before[2])
    mig.fake.set_answer("0/1", "nvmlDeviceGetUUID", before[1])
    mig.move(60)
    mig.report("slow")
    assert [device.uuid for device in mig.report().devices] == [before[0], before[2], before[1], before[3]]


def test_a_lost_card_takes_its_instances_with_it(mig: Bench) -> None:
    mig.report()
    mig.fake.lose(0)
    report = mig.report()
    assert [device.up for device in report.devices] == [False] * 4
    assert report.readings == ()
    assert mig.fake.calls("*", NODE) > 0


def test_xid_of_an_instance_is_reported_for_that_instance(mig: Bench) -> None:
    mig.report()
    mig.fake.xid("0/1", 94)
    assert [(event.device, event.code) for event in mig.events(1)] == [(2, "xid_94")]
