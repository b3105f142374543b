"""The reader and its tables without a compiler: on a pynvml in Python, with the fake library's nodes and pages."""

import re
from pathlib import Path

import pytest

from kits.fake_nvml.reader import TIERS, value
from kits.fake_nvml.stand_in import StandIn, reading
from telemetry_parsers.metrics import BY_KEY
from telemetry_parsers.model import Absent, Report

PAGES = Path(__file__).parent / "pages"


# Metrics derived by the daemon, and metrics that need events, two samples of GPM or structures of the library.
NOT_HERE = re.compile(
    "accelerator_(info|up|event_watch|memory_used_ratio|flops_per_cycle|peak_|(graphics|sm|tensor|pipe)_active|sm_occupancy"
    "|memory_bandwidth_ratio|fan_rpm)|telemetry_"
)


def lines(reports: list[Report]) -> set[str]:
    found = set()
    for report in reports:
        for item in report.readings:
            if item.device == 0 and isinstance(item.value, float):
                label = f'{BY_KEY[item.metric].label}="{item.label}"' if item.label else ""
                found.add(f"{BY_KEY[item.metric].name} {label} {item.value!r}")
    return {line for line in found if not NOT_HERE.match(line)}


def lines_of_page(name: str) -> set[str]:
    labels = {metric.name: metric.label for metric in BY_KEY.values()}
    found = set()
    for row in (PAGES / f"{name}.txt").read_text().splitlines():
        metric, _, rest = row.partition("{")
        label = re.search(rf'\b({labels[metric]}="[^"]*")', rest) if labels.get(metric) else None
        found.add(f"{metric} {label[1] if label else ''} {float(row.rpartition(' ')[2])!r}")
    return {line for line in found if not NOT_HERE.match(line)}


@pytest.mark.parametrize("profile", ["h100", "a100", "t4", "wsl", "gb10", "gb200", "vgpu", "geforce-old", "jetson"])
def test_the_readings_of_a_card_are_those_of_its_page(profile: str, tmp_path: Path) -> None:
    with reading(StandIn(profile), tmp_path) as bench:
        reports = [bench.report(tier) for tier in TIERS]
    assert lines(reports) == lines_of_page(profile)
    assert [problem.text for report in reports for problem in report.problems] == []


def test_a_lost_gpu_is_down_and_the_others_go_on(tmp_path: Path) -> None:
    node = StandIn("h100")
    with reading(node, tmp_path) as bench:
        bench.report()
        node.lost.add(1)
        report = bench.report()
        assert [device.up for device in report.devices] == [True, False, *[True] * 6]
        assert {item.device for item in report.readings} == {0, *range(2, 8)}
        assert [(event.device, event.code) for event in report.events] == [(1, "gpu_lost")]
        node.lost.clear()
        bench.move(30)
        assert value(bench.report(), "utilization_ratio", device=1) == 0.98


def test_card_with_instances_is_read(tmp_path: Path) -> None:
    with reading(StandIn("a100-mig"), tmp_path) as bench:
        report, processes = bench.report(), bench.report("processes")
    _, *parts = report.devices
    assert [(part.parent, part.partition, dict(part.facts)["gpu_instance"]) for part in parts] == [
        (0, "0", "7"),
        (0, "1", "3"),
        (0, "2", "1"),
    ]
    assert value(report, "memory_total_bytes", device=1) == 9856 * 2.0**20
    assert value(report, "utilization_ratio") is Absent.NOT_SUPPORTED
    assert [(process.device, process.pid) for process in processes.processes] == [(1, 70311), (2, 70512), (3, 70513)]
