"""Polls and outputs of one tool of which only some say what is a partition of what: the tool's number joins them."""

from __future__ import annotations

from merge.reports import Node, card, reported
from telemetry_parsers.combining import combine_reports
from telemetry_parsers.model import Device, SourceReport

PARENT = card(0, "amd", bus_id="0000:05:00.0")
PART = card(1, "amd", bus_id="0000:05:00.1", partition="1", parent=0)


def listing(taken: float) -> SourceReport:
    return reported("amd-smi", [(PARENT, {}), (PART, {})], poll="list", taken=taken, life=1000.0)


def metric(taken: float) -> SourceReport:
    values = [(card(0, "amd"), {"power_watts": 500.0}), (card(1, "amd"), {"utilization_ratio": 0.5})]
    return reported("amd-smi", values, poll="metric", taken=taken, life=1000.0)


def test_a_poll_that_tells_no_partition_speaks_of_the_one_with_its_number_whichever_is_newer() -> None:
    for newest, older in ((listing(2.0), metric(1.0)), (metric(2.0), listing(1.0))):
        merged = Node().see(newest, older, now=3.0)
        found = [(one.id, one.device, one.parent, {r.metric: r.value for r in one.readings}) for one in merged.devices]
        assert found == [
            ("0000:05:00.0", "0", None, {"power_watts": 500.0}),
            ("0000:05:00.0/1", "0:1", "0000:05:00.0", {"utilization_ratio": 0.5}),
        ]


def test_a_number_that_stands_for_several_says_nothing_without_the_partition() -> None:
    parts = [(card(0, "nvidia"), {}), (card(0, "nvidia", partition="1", parent=0), {})]
    lists = reported("tool", parts, poll="list", taken=2.0)
    plain = reported("tool", [(card(0, "nvidia", partition="1"), {"power_watts": 9.0})], poll="metric", taken=1.0)
    merged = Node().see(lists, plain, now=3.0)
    assert [len(device.readings) for device in merged.devices] == [0, 0]


def test_outputs_of_one_capture_are_joined_alike() -> None:
    reports = [listing(0.0).report, metric(0.0).report]
    for order in (reports, reports[::-1]):
        found: list[Device] = list(combine_reports(order).devices)
        assert [(one.index, one.bus_id, one.partition, one.parent) for one in found] == [
            (0, "0000:05:00.0", None, None),
            (1, "0000:05:00.1", "1", 0),
        ]


def test_a_partition_is_one_device_whether_or_not_its_address_counts_partitions() -> None:
    """sysfs gives each partition its card's address, rocm-smi and amd-smi count partitions in the function."""
    bus = "0000:05:00.0"
    files = reported(
        "amdgpu-sysfs",
        [
            (card(None, "amd", bus_id=bus), {}),
            (card(None, "amd", bus_id=bus, partition="1", parent=0), {"compute_units": 38.0}),
        ],
    )
    tool = reported("rocm-smi", [(PARENT, {}), (PART, {"utilization_ratio": 0.5})])
    merged = Node().see(files, tool, now=3.0)
    assert [(one.id, len(one.readings)) for one in merged.devices] == [(bus, 0), (f"{bus}/1", 2)]
