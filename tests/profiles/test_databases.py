"""What the formats of databases read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiles.made_databases import (
    ANALYSIS,
    GLOBAL,
    HIPPROF,
    MADE,
    MSPROF,
    NSYS,
    ROCPD,
    ROCPROF,
    T,
    Tables,
    read,
    write,
)
from telemetry_parsers.profiles.facts import Card, Device, Facts, Link, Split, Step


def _read(tmp_path: Path, tables: Tables) -> Facts:
    return read(write(tmp_path / "made.db", tables))


def _only(facts: Facts) -> Device:
    (device,) = facts.devices
    return device


def _sums(device: Device) -> dict[str, tuple[int, int]]:
    return {kernel.name: (kernel.calls, kernel.total_ns) for kernel in device.kernels}


# The same events in the five shapes: two kernels that overlap by 50 ns (one of them a collective where the shape has
# them), one copy before, one that overlaps by 10 ns, and one step around them.
SPLITS = {
    "hipprof": Split(500, 300, 0, 0, 160, 150, 50, None, None, 2),
    "nsys": Split(500, 200, 150, 100, 160, 150, 50, None, 40, 2),
    "rocpd": Split(490, 300, 0, 0, 150, 140, 50, None, None, 2),
    "rocprof": Split(490, 300, 0, 0, 150, 140, 50, None, None, 2),
    "msprof": Split(400, 150, 200, 150, 110, 100, 0, None, 0, 2),
}
STEPS = {
    "hipprof": ("train_step_4", T, Split(600, 300, 0, 0, 160, 150, 150, None, None, 2)),
    "nsys": ("step 7", T, Split(600, 200, 150, 100, 160, 150, 150, None, 40, 2)),
    "rocpd": ("iteration 12", 5, Split(595, 300, 0, 0, 150, 140, 155, None, None, 2)),
    "rocprof": ("iteration 12", 5, Split(595, 300, 0, 0, 150, 140, 155, None, None, 2)),
    "msprof": ("step 12", T, Split(600, 150, 200, 150, 110, 100, 200, None, 40, 2)),
}
CARDS = {
    "hipprof": Card(0),
    "nsys": Card(0, "NVIDIA A100", "GPU-38dd3137-64b7-7ca8-74e6-4b01011bb179", "0000:03:00.0"),
    "rocpd": Card(0, "AMD Instinct MI300X", "", "0001:0c:00.0"),
    "rocprof": Card(0),
    "msprof": Card(3, "Ascend910B3"),
}
KERNELS = {
    "hipprof": {"gemm(float*)": (2, 350), "DeviceToHost": (1, 110), "HostToDevice": (1, 50)},
    "nsys": {
        "void gemm<float>(T1 *)": (1, 200),
        "ncclDevKernel_AllReduce": (1, 150),
        "[CUDA memcpy Device-to-Host]": (1, 110),
        "[CUDA memcpy Host-to-Device]": (1, 50),
    },
    "rocpd": {"gemm(float*)": (2, 350), "MEMORY_COPY_HOST_TO_DEVICE": (2, 150)},
    "rocprof": {"gemm(float*)": (2, 350), "async-copy": (2, 150)},
    "msprof": {"hcom_allReduce": (1, 200), "MatMulV2": (1, 150), "memcpy host to device": (1, 110)},
}
CALLS = {
    "hipprof": [],
    "nsys": [("cudaLaunchKernel", 2, 14)],
    "rocpd": [("hipLaunchKernel", 1, 9)],
    "rocprof": [("hipLaunchKernel", 1, 5)],
    "msprof": [("aclrtLaunchKernel", 1, 9)],
}
CLOCKS = {"hipprof": "unix", "nsys": "unix", "rocpd": "boot", "rocprof": "boot", "msprof": "unix"}


@pytest.mark.parametrize("name", MADE)
def test_intervals_become_a_split_steps_and_sums(tmp_path: Path, name: str) -> None:
    facts = _read(tmp_path, MADE[name])
    device = _only(facts)
    step_name, step_begin, step_split = STEPS[name]
    assert device.split == SPLITS[name]
    assert device.steps == (Step(step_name, step_split, step_begin),)
    assert device.card == CARDS[name]
    assert _sums(device) == KERNELS[name]
    assert [(call.name, call.calls, call.total_ns) for call in facts.calls] == CALLS[name]
    assert (facts.clock, facts.problems) == (CLOCKS[name], ())


@pytest.mark.parametrize("name", MADE)
def test_what_is_private_is_not_read(tmp_path: Path, name: str) -> None:
    shown = repr(_read(tmp_path, MADE[name]))
    assert not [word for word in ("secret", "10.9.8.7", "10_9_8_7") if word in shown]


@pytest.mark.parametrize("one_of", [4, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", MADE)
def test_a_table_or_column_that_a_version_lacks_leaves_the_rest(tmp_path: Path, name: str, one_of: int) -> None:
    """No number is larger without it."""
    whole = _only(_read(tmp_path, MADE[name]))
    shorter = _without_each_table(MADE[name]) + _without_each_column(MADE[name])[::one_of]
    for number, tables in enumerate(shorter):
        path = write(tmp_path / f"{number}.db", tables)
        try:
            facts = read(path)
        except ValueError:
            continue  # no format knows it any more: `known` has nothing to unpack
        for device in facts.devices:
            assert (device.split.compute_ns or 0) + (device.split.communication_ns or 0) <= 350, tables.keys()
            assert {kernel.total_ns for kernel in device.kernels} <= {200, 150, 350, 110, 50, 40, 160}
            assert (device.split.span_ns or 0) <= (whole.split.span_ns or 0)


def _without_each_table(tables: Tables) -> list[Tables]:
    return [{name: table for name, table in tables.items() if name != left} for left in tables]


def _without_each_column(tables: Tables) -> list[Tables]:
    return [
        {**tables, name: _without(columns.split(","), rows, left)}
        for name, (columns, rows) in tables.items()
        for left in range(len(columns.split(",")))
        if "," in columns
    ]


def _without(columns: list[str], rows: Any, left: int) -> tuple[str, list[tuple[object, ...]]]:
    kept = [number for number in range(len(columns)) if number != left]
    return ",".join(columns[number] for number in kept), [tuple(row[number] for number in kept) for row in rows]


def test_processes_that_count_their_cards_anew_are_told_apart_by_nsys(tmp_path: Path) -> None:
    """Each sees one card, as number 0; each has its own steps."""
    other = (1 << 48) | (5151 << 24)
    columns, rows = NSYS["CUPTI_ACTIVITY_KIND_KERNEL"]
    facts = _read(
        tmp_path,
        {
            **NSYS,
            "CUPTI_ACTIVITY_KIND_KERNEL": (columns, [*rows, (700, 730, 0, other, 1, 1, 1, 1, 1, 1, 1, 1)]),
            "NVTX_EVENTS": (
                "start,end,text,textId,globalTid",
                [(0, 600, "step 1", None, GLOBAL), (650, 800, "step 1", None, other)],
            ),
            "TARGET_INFO_GPU": (
                "id,name,busLocation,uuid",
                [(0, "A", "0000:03:00.0", ""), (1, "B", "0000:04:00.0", "")],
            ),
            "TARGET_INFO_CUDA_DEVICE": ("gpuId,cudaId,pid,uuid", [(1, 0, 4242, ""), (0, 0, 5151, "")]),
        },
    )
    told = [
        (device.card.bus_id, device.split.span_ns, [step.begin_ns for step in device.steps]) for device in facts.devices
    ]
    assert told == [("0000:03:00.0", 30, [T + 650]), ("0000:04:00.0", 500, [T])]


def test_cuda_graphs_whose_nodes_were_not_traced_are_work(tmp_path: Path) -> None:
    graphs = ("start,end,deviceId,globalPid,graphId", [(600, 900, 0, GLOBAL, 3)])
    device = _only(_read(tmp_path, {**NSYS, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": graphs}))
    assert _sums(device)["CUDA graph 3"] == (1, 300)
    assert device.split.compute_ns == 500


def test_launch_shapes_are_told(tmp_path: Path) -> None:
    assert {(kernel.grid, kernel.block) for kernel in _only(_read(tmp_path, ROCPD)).kernels} == {
        ("512×2×1", "256×1×1"),
        ("", ""),
    }


def test_processes_of_a_node_share_its_cards_in_rocpd(tmp_path: Path) -> None:
    """Two processes in one file use the same card at the same time: it is busy once."""
    merged = ROCPD | {name.replace("u1", "u2"): table for name, table in ROCPD.items()}
    device = _only(_read(tmp_path, merged))
    assert device.split.compute_ns == 300
    assert _sums(device)["gemm(float*)"] == (4, 700)


def test_times_that_rocpd_keeps_in_a_table_of_their_own_are_found(tmp_path: Path) -> None:
    newer: Tables = {
        "rocpd_timestamp_u1": ("id,guid,value,phase", [(1, "u1", 100, 1), (2, "u1", 300, 2)]),
        "rocpd_track_u1": ("id,guid,nid,pid,agent_id", [(6, "u1", 9, 77, 2)]),
        "rocpd_info_agent_u1": ROCPD["rocpd_info_agent_u1"],
        "rocpd_info_kernel_symbol_u1": ROCPD["rocpd_info_kernel_symbol_u1"],
        "rocpd_kernel_dispatch_u1": ("id,guid,track_id,kernel_id,start_id,end_id", [(1, "u1", 6, 5, 1, 2)]),
    }
    device = _only(_read(tmp_path, newer))
    assert (device.card.bus_id, device.begin_ns, _sums(device)) == ("0001:0c:00.0", 100, {"gemm(float*)": (1, 200)})


def test_a_merged_hipprof_file_has_a_device_for_each_rank(tmp_path: Path) -> None:
    keys = ("10_9_8_7_77_170", "10_9_8_7_78_171")
    device = _read(tmp_path, HIPPROF | {name.replace(keys[0], keys[1]): table for name, table in HIPPROF.items()})
    assert len(device.devices) == 1  # without ranks, the processes of a node share its cards
    ranked = {
        name.replace(keys[0], key): table for key in keys for name, table in HIPPROF.items() if keys[0] in name
    } | {
        "CONFIG": ("KEY,PID,RANK_ID,IP", [(keys[0], 77, 0, ""), (keys[1], 77, 1, "")]),
        "SUMMARY": HIPPROF["SUMMARY"],
        "STR_TABLE": (
            "PID,CONFIG_KEY,TYPE,STR_ID,STR_NAME",
            [(77, keys[0], 6, 1, "first"), (77, keys[1], 6, 1, "second")],
        ),
    }
    facts = read(write(tmp_path / "ranked.db", ranked))
    assert [(each.rank, each.kernels[0].name) for each in facts.devices] == [(0, "first"), (1, "second")]


def test_counters_of_rocprof_stand_in_for_a_trace(tmp_path: Path) -> None:
    counted = ("Index,KernelName,gpu-id,BeginNs,EndNs,DurationNs", [(0, "gemm.kd", 1, 100, 300, 200)])
    device = _only(_read(tmp_path, {"KERN": counted}))
    assert (device.card, _sums(device)) == (Card(1), {"gemm.kd": (1, 200)})
    assert _sums(_only(read(write(tmp_path / "both.db", {**ROCPROF, "KERN": counted})))) == KERNELS["rocprof"]


def test_copies_of_msprof_are_known_without_the_calls_of_the_runtime(tmp_path: Path) -> None:
    tables = {name: table for name, table in MSPROF.items() if name != "MEMCPY_INFO"}
    columns, strings = MSPROF["STRING_IDS"]
    tables["STRING_IDS"] = (columns, [*strings, (0, "MEMCPY_ASYNC")])
    tables["COMMUNICATION_TASK_INFO"] = ("name,globalTaskId,opId", [(2, 13, 1)])
    tables["TASK"] = (MSPROF["TASK"][0], [(*row[:6], 0 if row[4] != 11 else 9) for row in MSPROF["TASK"][1]])
    assert _sums(_only(_read(tmp_path, tables)))["memcpy of another kind"] == (1, 110)


def test_sums_of_steps_and_links_of_a_cluster(tmp_path: Path) -> None:
    facts = _read(tmp_path, ANALYSIS)
    assert [(device.rank, device.steps) for device in facts.devices] == [
        (0, (Step("step 3", Split(125_750, 100_500, 30_250, 20_250, idle_ns=5_000)),)),
        (1, (Step("step 3", Split(125_500, 80_000, 41_500, 40_500, idle_ns=5_000)),)),
    ]
    assert facts.links == (Link("HCCS", "0", "1", 4_000_000, 1_000_000),)
    assert facts.ranks == 2
