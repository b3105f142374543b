"""The real tables of Ascend and MindSpore where they lie: each figure beside what plain csv and json give for it."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kits.tables import facts_of
from kits.traces import profile_captures
from telemetry_parsers.profiles.facts import Device, Facts, Split, Step

ASCEND, MINDSPORE = "ascend_pytorch", "mindspore"
STEPS = "step_trace_raw_{}_detail_time.csv"
Rows = list[dict[str, str]]


def captures() -> Path:
    """The folder of real profiles."""
    folder = profile_captures()
    if folder is None:
        pytest.skip("there are no shared captures beside this checkout")
    return folder


def content(name: str) -> bytes:
    data = (captures() / name).read_bytes()
    return gzip.decompress(data) if name.endswith(".gz") else data


def rows(name: str) -> Rows:
    """The rows by their headings, as the csv module sees them."""
    found = csv.DictReader(io.StringIO(content(name).decode()))
    return [{(key or "").strip(): (cell or "").strip() for key, cell in row.items()} for row in found]


def read(name: str) -> Facts:
    return facts_of(name.removesuffix(".gz"), content(name))


def one(facts: Facts) -> Device:
    (device,) = facts.devices
    return device


def whole_steps(device: Device) -> list[Step]:
    return [step for step in device.steps if not step.is_mean]


def times(values: list[float], unit: float) -> Any:
    """Printed times as nanoseconds; within what rounding them gives."""
    return pytest.approx([value * unit for value in values], abs=1)


def test_the_ranks_of_a_cluster() -> None:
    name = f"{ASCEND}/cluster_step_trace_time.csv"
    facts, told = read(name), [row for row in rows(name) if row["Type"] == "rank"]
    assert (facts.format, facts.ranks) == ("ascend-steps", 8)
    assert [device.rank for device in facts.devices] == [int(row["Index"]) for row in told]
    for column, field in {
        "Computing": "compute_ns",
        "Communication": "communication_ns",
        "Communication(Not Overlapped)": "exposed_communication_ns",
        "Free": "idle_ns",
    }.items():
        assert [getattr(device.split, field) for device in facts.devices] == times(
            [float(row[column]) for row in told], 1e3
        )
    for device, row in zip(facts.devices, told, strict=True):
        assert device.split.span_ns == pytest.approx(float(row["Stage"]) * 1e3, rel=1e-3)


def test_every_operator() -> None:
    name = f"{ASCEND}/kernel_details.csv.gz"
    facts, told = read(name), rows(name)
    device = one(facts)
    assert (facts.format, facts.clock, facts.problems) == ("ascend-runs", "unix", ())
    assert sum(kernel.calls for kernel in device.kernels) == len(told) == 591
    for work, cores in (("communication", True), ("compute", False)):
        chosen = [float(row["Duration(us)"]) for row in told if (row["Accelerator Core"] == "HCCL") == cores]
        kernels = [kernel for kernel in device.kernels if kernel.work == work]
        assert sum(kernel.total_ns for kernel in kernels) == pytest.approx(sum(chosen) * 1e3, abs=len(chosen))
    begin = min(float(row["Start Time(us)"]) for row in told)
    assert device.begin_ns == pytest.approx(begin * 1e3, abs=300)
    assert (device.split.idle_ns, device.split.copy_ns) == (None, None)


def test_the_collectives_of_a_cluster() -> None:
    name = f"{ASCEND}/cluster_communication.json"
    facts, told = read(name), json.loads(content(name))["(0, 1)"]["step"]
    for device in facts.devices:
        infos = [ranks[str(device.rank)]["Communication Time Info"] for ranks in told.values()]
        (kernel,) = device.kernels
        assert (kernel.name, kernel.calls) == ("hcom_broadcast", len(infos))
        assert kernel.total_ns == pytest.approx(sum(info["Elapse Time(ms)"] for info in infos) * 1e6, abs=2)
        assert device.split.wait_ns == pytest.approx(sum(info["Wait Time(ms)"] for info in infos) * 1e6, abs=2)
    assert [device.rank for device in facts.devices] == [0, 1]
    assert {(link.kind, link.source) for link in facts.links} == {
        (kind, rank) for kind in ("HCCS", "PCIE") for rank in "01"
    }
    for link in facts.links:
        infos = [ranks[link.source]["Communication Bandwidth Info"][link.kind] for ranks in told.values()]
        assert link.bytes_moved == pytest.approx(sum(info["Transit Size(MB)"] for info in infos) * 1e6, abs=2)
        assert link.busy_ns == pytest.approx(sum(info["Transit Time(ms)"] for info in infos) * 1e6, abs=2)


@pytest.mark.parametrize(
    ("name", "rank", "steps"),
    [
        (f"{MINDSPORE}/cluster-pipeline/{STEPS.format(0)}.gz", 0, 5),
        (f"{MINDSPORE}/cluster-pipeline/{STEPS.format(1)}.gz", 1, 5),
        (f"{MINDSPORE}/base/{STEPS.format(0)}", 0, 20),
        (f"{MINDSPORE}/run_2/{STEPS.format(1)}", 1, 1),
    ],
)
def test_step_traces(name: str, rank: int, steps: int) -> None:
    facts = read(name)
    device, told = one(facts), [row for row in rows(name) if row["step_num"] not in ("-", "0")]
    assert (facts.format, facts.clock, device.rank, len(told), facts.problems) == (
        "mindspore-steps",
        "none",
        rank,
        steps,
        (),
    )
    assert [step.name for step in whole_steps(device)] == [f"step {row['step_num']}" for row in told]
    for column, field in {"total": "span_ns", "iteration_interval": "data_wait_ns"}.items():
        assert [getattr(step.split, field) for step in whole_steps(device)] == [int(row[column]) * 10 for row in told]
    assert [step.split.communication_ns for step in whole_steps(device)] == [in_collectives(row) for row in told]


def in_collectives(row: dict[str, str]) -> int | None:
    """The time of the step in which a collective ran, between all the edges that there are."""
    names = [key.removesuffix("_start_point") for key in row if key.endswith("_start_point") and key != "start_point"]
    if not names:
        return None
    begin, end = int(row["start_point"]), int(row["end_point"])
    edges = sorted({begin, end, *(int(row[f"{name}_{edge}_point"]) for name in names for edge in ("start", "end"))})
    ran = [(int(row[f"{name}_start_point"]), int(row[f"{name}_end_point"])) for name in names]
    return 10 * sum(
        until - since
        for since, until in pairwise(edges)
        if begin <= since and until <= end and any(first <= since and until <= last for first, last in ran)
    )


@pytest.mark.parametrize("rank", [0, 1])
def test_collectives_by_step(rank: int) -> None:
    name = f"{MINDSPORE}/cluster-pipeline/hccl_raw_{rank}.csv.gz"
    facts = read(name)
    device, told = one(facts), rows(name)[:-1]
    assert [step.split.wait_ns for step in whole_steps(device)] == times([float(row["wait_cost"]) for row in told], 1e6)
    assert len(facts.links) == 2
    for link in facts.links:
        kind = link.kind.removesuffix(" within a card")
        moved = [json.loads(row["link_info"])[f"{link.source}-{link.target}"][kind] for row in told]
        assert link.busy_ns == pytest.approx(sum(numbers[0] for numbers in moved) * 1e6, abs=len(told))
        assert link.bytes_moved == pytest.approx(sum(numbers[1] for numbers in moved) * 1e3, abs=len(told))


@pytest.mark.parametrize(
    ("name", "rank", "compute", "exposed"),
    [
        (
            f"cluster-pipeline/ascend_cluster_analyse_pipeline-parallel_2_4_{rank}.csv",
            rank,
            "computation_time",
            "communication_alone_time",
        )
        for rank in (0, 1)
    ]
    + [("run_3/ascend_cluster_analyse_model-parallel_1_2_1.csv", 1, "computation", "communication_alone_time")],
)
def test_analyses_of_a_cluster(name: str, rank: int, compute: str, exposed: str) -> None:
    path = f"{MINDSPORE}/{name}"
    facts, told = read(path), rows(path)
    device = one(facts)
    assert (facts.format, device.rank, len(device.steps)) == ("mindspore-cluster", rank, len(told))
    assert [step.split.compute_ns for step in device.steps] == times([float(row[compute]) for row in told], 1e6)
    assert [step.split.exposed_communication_ns for step in device.steps] == times(
        [float(row[exposed]) for row in told], 1e6
    )
    assert [step.is_mean for step in device.steps] == [len(told) > 1 and row is told[-1] for row in told]


def test_an_analysis_in_ticks() -> None:
    device = one(read(f"{MINDSPORE}/run_2/ascend_cluster_analyse_data-parallel_1_1_1.csv"))
    assert device.steps == (Step("step 1", Split(span_ns=10 * (2366808 + 4097), data_wait_ns=0)),)


@pytest.mark.parametrize(
    ("name", "column", "count", "kernels"),
    [
        ("aicore_intermediate_1_detail.csv", "full_op_name", None, 105),
        ("aicore_intermediate_1_type.csv", "op_type", "execution_frequency", 21),
        ("aicpu_intermediate_1.csv", "kernel_type", None, 3),
    ],
)
def test_operators(name: str, column: str, count: str | None, kernels: int) -> None:
    path = f"{MINDSPORE}/run_2/{name}"
    device, told = one(read(path)), rows(path)
    assert device.rank == 1
    assert {kernel.name for kernel in device.kernels} == {row[column] for row in told}
    assert len(device.kernels) == kernels
    assert sum(kernel.calls for kernel in device.kernels) == sum(int(row[count]) if count else 1 for row in told)
    assert sum(kernel.total_ns for kernel in device.kernels) == pytest.approx(
        sum(float(row["execution_time"]) for row in told) * 1e6, abs=len(told)
    )


@pytest.mark.parametrize(
    ("name", "rank"), [("cluster-pipeline", 0), ("cluster-pipeline", 1), ("base", 0)], ids=["0", "1", "base"]
)
def test_flops(name: str, rank: int) -> None:
    path = f"{MINDSPORE}/{name}/flops_summary_{rank}.json"
    device, told = one(read(path)), json.loads(content(path))
    assert device.flops is not None
    assert device.rank == rank
    assert device.flops.per_step == pytest.approx(told["FLOPs"] * 1e6)
    assert device.flops.per_second == pytest.approx(told["FLOPS"] * 1e9)


def test_the_queue_of_batches() -> None:
    (hint,) = read(f"{MINDSPORE}/run_2/minddata_pipeline_raw_1.csv").hints
    assert hint.cause == "data"
    assert "2%" in hint.text


DEVICE = "msprof/PROF_000001_20230818142704322_COJGGGCANRMICFBC/device_0"


def of_the_info(facts: Facts) -> bool:
    return (one(facts).rank, one(facts).card.index) == (0, 0)


def of_the_clock(facts: Facts) -> bool:
    return facts.boot_to_unix_ns == 1692340024324979 * 1000 - 56579931060630


def of_nothing(facts: Facts) -> bool:
    return facts == Facts(facts.format, facts.tool)


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        (f"{DEVICE}/info.json.0", of_the_info),
        (f"{DEVICE}/start_info.0", of_the_clock),
        (f"{DEVICE}/end_info.0", of_nothing),
        (f"{MINDSPORE}/run_2/step_trace_point_info.json", of_nothing),
        (f"{MINDSPORE}/run_2/ascend_timeline_summary_1.json", of_nothing),
        (f"{MINDSPORE}/run_2/minddata_aicpu_1.txt", of_nothing),
        (f"{MINDSPORE}/run_2/minddata_cpu_utilization_1.json", of_nothing),
        (f"{MINDSPORE}/run_2/pipeline_profiling_1.json", of_nothing),
        (f"{MINDSPORE}/run_2/device_queue_profiling_1.txt", of_nothing),
        (f"{MINDSPORE}/base/flops_1.txt", of_nothing),
        (f"{MINDSPORE}/base/gpu_timeline_summary_0.json", of_nothing),
    ],
)
def test_files_beside_them(name: str, holds: Callable[[Facts], bool]) -> None:
    assert holds(read(name))


def test_no_file_is_forgotten() -> None:
    """What stands neither here nor among the traces is a file that nobody looked at."""
    source = Path(__file__).read_text() + (Path(__file__).parent / "test_real_traces.py").read_text()
    source = source.replace("{rank}", "0") + source.replace("{rank}", "1").replace("STEPS", STEPS)
    folders = [captures() / name for name in (ASCEND, MINDSPORE, "msprof")]
    names = [path.name for folder in folders for path in folder.rglob("*") if path.is_file()]
    known = [STEPS.format(rank) for rank in (0, 1)]
    assert [name for name in names if name.removesuffix(".gz") not in [*known] and name not in source] == []
