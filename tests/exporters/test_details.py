"""The terminal's view of everything: every reading or those that are asked for, with their sources, and processes."""

from __future__ import annotations

import pytest

from kits import snapshots as kit
from telemetry_exporters.style import Colour
from telemetry_exporters.table import Chosen, Detail, table
from telemetry_parsers.model import Absent, MergedReading, Metric, Problem, Process


def lines_of(snapshot, width=0, detail=Detail.BRIEF):
    return table(snapshot, width, Colour.NEVER, detail).splitlines()


def test_processes_are_told_where_they_are_asked_for():
    users = (Process(0, 4711, "python3", 1048576.0), Process(0, 12, ""))
    lines = lines_of(kit.snapshot(kit.full_device(processes=users)), detail=Detail.PROCESSES)
    assert lines[-3:] == [
        "DEVICE     PID  MEMORY  NAME",
        "nvidia 0  4711   1 MiB  python3",
        "nvidia 0    12       –  –",
    ]
    assert lines_of(kit.snapshot(kit.full_device()), detail=Detail.PROCESSES)[-1] == "No source tells of a process."


def test_of_a_process_everything_is_told_that_is_known():
    snapshot = kit.snapshot(kit.shared_device())
    chosen = Chosen(command_lines={4711: "train.py\x1b[2J\n\u202e -e 3"})
    lines = table(snapshot, 0, Colour.NEVER, Detail.PROCESSES, chosen=chosen).splitlines()
    assert lines[-4:] == [
        "DEVICE     PID  USER   MEMORY  UTIL    RUNS FOR  OWNER                NAME     COMMAND LINE",
        "nvidia 0  4711  alice   1 GiB  25 %  30 min 0 s  job 1234 (alice)     python3  train.py\ufffd[2J \ufffd -e 3",
        "nvidia 0  4712  root    1 MiB  25 %  30 min 0 s  pod ml/train-0/main  serve    –",
        "nvidia 0  4713  –           –     –           –  –                    other    –",
    ]
    narrow = table(snapshot, 60, Colour.NEVER, Detail.PROCESSES, chosen=chosen).splitlines()
    assert max(map(len, narrow[-4:])) <= 60


def test_everything_tells_the_owners_and_the_processes():
    lines = lines_of(kit.snapshot(kit.shared_device()), detail=Detail.EVERYTHING)
    since = "since 2025-12-31 23:00:00 UTC"
    told = [" ".join(line.split()) for line in lines if line.startswith(("  owner", "  process"))]
    assert told == [
        f"owner job 1234 (alice) 75 % of the card, by utilization, allocated and used, 2 GiB, {since}, told by slurm",
        "owner pod ml/train-0/main 25 % of the card, by utilization, allocated, not used, told by kubelet",
        "process 4711 1 GiB python3, of alice, job 1234 (alice), 25 %, since 2025-12-31 23:30:00 UTC",
        "process 4712 1 MiB serve, of root, pod ml/train-0/main, 25 %, since 2025-12-31 23:30:00 UTC",
        "process 4713 – other",
    ]


def test_a_device_that_is_shown_alone_is_judged_beside_its_peers():
    """Its links are down while those of others of its model are up."""
    power = kit.reading("power_watts", 80.0)
    links = [(kit.reading("link_up", 1.0, "0"), kit.reading("link_up", float(place > 0), "1")) for place in range(8)]
    snapshot = kit.snapshot(*(kit.device(place, power, *each) for place, each in enumerate(links)))
    assert alone(snapshot, "GPU-00000000").splitlines()[3].endswith("1 link down")
    assert "1 link down" in alone(snapshot, "GPU-00000000", Detail.EVERYTHING)
    assert alone(snapshot, "GPU-00000001").endswith("  ok\n")


def alone(snapshot, device_id, detail=Detail.BRIEF):
    return table(snapshot, 0, Colour.NEVER, detail, chosen=Chosen(ids=frozenset({device_id})))


@pytest.mark.parametrize(
    ("patterns", "wanted"),
    [
        (("power*",), {"power", "power cap"}),
        (("accelerator_power_watts",), {"power"}),
        (("*_load1", "util*"), {"utilization", "load1"}),
        (("no_such_metric",), set()),
    ],
)
def test_patterns_choose_metrics_and_not_what_is_said_of_the_devices(patterns, wanted):
    load = MergedReading("telemetry_host_load1", "", 0.25, "host")
    lost = kit.device(1, up=False)
    snapshot = kit.snapshot(kit.full_device(), lost, host=(load,), sources=(kit.source(),))
    text = table(snapshot, 0, Colour.NEVER, Detail.EVERYTHING, chosen=Chosen(patterns=patterns))
    assert {line.split("  ")[1] for line in text.splitlines() if line.endswith((" nvml", " host"))} == wanted
    assert "nvidia 1 NVIDIA H100 80GB HBM3 (lost)\n" in text


def test_everything_in_full():
    device = kit.device(
        0,
        kit.reading("power_watts", 112.5),
        kit.reading("clock_hertz", Absent.NOT_PERMITTED, "memory"),
        bus_id="0000:1a:00.0",
        facts=(("numa_node", "0"),),
        processes=(Process(0, 4711, "python3", 1048576.0), Process(0, 4712, "other")),
    )
    snapshot = kit.snapshot(
        device,
        sources=(
            kit.source("nvml", version="550.54.15", problems=(Problem("field x", "is new"),)),
            kit.source("hy-smi", "missing", polls=()),
        ),
        host=(MergedReading("telemetry_host_load1", "", 0.25, "host"),),
    )
    assert lines_of(snapshot, detail=Detail.EVERYTHING) == [
        "node17, 1 × NVIDIA H100 80GB HBM3, 2026-01-01 00:00:00 UTC",
        "",
        "nvidia 0 NVIDIA H100 80GB HBM3 (ok)",
        "  id         GPU-00000000",
        "  bus id     0000:1a:00.0",
        "  numa node  0",
        "  power         112 W  nvml",
        "  clock memory      –  not permitted (nvml)",
        "  process 4711  1 MiB  python3",
        "  process 4712      –  other",
        "",
        "host",
        "  load1  0.25  host",
        "",
        "sources",
        "  nvml    ok 550.54.15, readings took 0.25 s, 2 s ago",
        "          field x: is new",
        "  hy-smi  missing",
    ]


def test_a_plugins_metric_is_among_everything():
    metric = Metric("accelerator_acme_tank_ratio", "gauge", "ratio", "Level of the tank.", 0, 1, "tank")
    snapshot = kit.snapshot(kit.device(0, MergedReading("acme_tank_ratio", "left", 0.5, "acme")))
    text = table(snapshot, 0, Colour.NEVER, Detail.EVERYTHING, {metric.key: metric})
    assert "  acme tank left  50 %  acme\n" in text
