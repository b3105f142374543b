"""The facts of databases."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from profiles.facts_text import of_facts
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
from telemetry_profile.format_contract import Device, Facts


def _read(tmp_path: Path, tables: Tables) -> Facts:
    return read(write(tmp_path / "made.db", tables))


def _only(facts: Facts) -> Device:
    (device,) = facts.devices
    return device


GOLDEN = Path(__file__).parent / "databases.txt"


def _other_processes() -> Tables:
    other = (1 << 48) | (5151 << 24)
    columns, rows = NSYS["CUPTI_ACTIVITY_KIND_KERNEL"]
    steps = [(0, 600, "step 1", None, GLOBAL), (650, 800, "step 1", None, other)]
    return {
        **NSYS,
        "CUPTI_ACTIVITY_KIND_KERNEL": (columns, [*rows, (700, 730, 0, other, 1, 1, 1, 1, 1, 1, 1, 1)]),
        "NVTX_EVENTS": ("start,end,text,textId,globalTid", steps),
        "TARGET_INFO_GPU": ("id,name,busLocation,uuid", [(0, "A", "0000:03:00.0", ""), (1, "B", "0000:04:00.0", "")]),
        "TARGET_INFO_CUDA_DEVICE": ("gpuId,cudaId,pid,uuid", [(1, 0, 4242, ""), (0, 0, 5151, "")]),
    }


def _two_ranks() -> Tables:
    return {name.replace(KEYS[0], key): table for key in KEYS for name, table in HIPPROF.items() if KEYS[0] in name} | {
        "CONFIG": ("KEY,PID,RANK_ID,IP", [(KEYS[0], 77, 0, ""), (KEYS[1], 77, 1, "")]),
        "SUMMARY": HIPPROF["SUMMARY"],
        "STR_TABLE": (
            "PID,CONFIG_KEY,TYPE,STR_ID,STR_NAME",
            [(77, KEYS[0], 6, 1, "first"), (77, KEYS[1], 6, 1, "second")],
        ),
    }


def _without_the_runtime() -> Tables:
    tables = {name: table for name, table in MSPROF.items() if name != "MEMCPY_INFO"}
    columns, strings = MSPROF["STRING_IDS"]
    tables["STRING_IDS"] = (columns, [*strings, (0, "MEMCPY_ASYNC")])
    tables["COMMUNICATION_TASK_INFO"] = ("name,globalTaskId,opId", [(2, 13, 1)])
    tables["TASK"] = (MSPROF["TASK"][0], [(*row[:6], 0 if row[4] != 11 else 9) for row in MSPROF["TASK"][1]])
    return tables


def _copies_of_each_kind() -> Tables:
    columns, rows = MSPROF["TASK"]
    tasks = [(T + 600 + 10 * kind, T + 605 + 10 * kind, 3, 1, 20 + kind, 77, 0) for kind in range(8)]
    kinds = [(20 + kind, 4096, kind) for kind in range(8)]
    return {**MSPROF, "TASK": (columns, [*rows, *tasks]), "MEMCPY_INFO": (MSPROF["MEMCPY_INFO"][0], kinds)}


KEYS = ("10_9_8_7_77_170", "10_9_8_7_78_171")
COUNTED = ("Index,KernelName,gpu-id,BeginNs,EndNs,DurationNs", [(0, "gemm.kd", 1, 100, 300, 200)])
VARIANTS: dict[str, Tables] = {
    **MADE,
    "sums of steps and links of a cluster": ANALYSIS,
    "processes that count their cards from 0 each": _other_processes(),
    "CUDA graphs whose nodes were not traced": NSYS
    | {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE": ("start,end,deviceId,globalPid,graphId", [(600, 900, 0, GLOBAL, 3)])},
    "two processes on a card at the same time": ROCPD
    | {name.replace("u1", "u2"): table for name, table in ROCPD.items()},
    "times in a table of their own": {
        "rocpd_timestamp_u1": ("id,guid,value,phase", [(1, "u1", 100, 1), (2, "u1", 300, 2)]),
        "rocpd_track_u1": ("id,guid,nid,pid,agent_id", [(6, "u1", 9, 77, 2)]),
        "rocpd_info_agent_u1": ROCPD["rocpd_info_agent_u1"],
        "rocpd_info_kernel_symbol_u1": ROCPD["rocpd_info_kernel_symbol_u1"],
        "rocpd_kernel_dispatch_u1": ("id,guid,track_id,kernel_id,start_id,end_id", [(1, "u1", 6, 5, 1, 2)]),
    },
    "processes without ranks": HIPPROF | {name.replace(*KEYS): table for name, table in HIPPROF.items()},
    "processes with ranks": _two_ranks(),
    "counters without a trace": {"KERN": COUNTED},
    "counters beside a trace": ROCPROF | {"KERN": COUNTED},
    "copies without the calls of the runtime": _without_the_runtime(),
    "copies of each kind": _copies_of_each_kind(),
}


def test_made_up_databases_have_the_expected_facts(tmp_path: Path, assert_golden: Callable[[Path, str], None]) -> None:
    """The first five contain the same: two kernels that overlap by 50 ns, a copy before, a copy that overlaps by 10 ns, and a step."""
    texts = []
    for number, (name, tables) in enumerate(VARIANTS.items()):
        facts = read(write(tmp_path / f"{number}.db", tables))
        texts.append("\n".join([name, *of_facts(facts, in_full=True), ""]))
    assert_golden(GOLDEN, "".join(texts))


@pytest.mark.parametrize("name", MADE)
def test_private_texts_are_not_read(tmp_path: Path, name: str) -> None:
    shown = repr(_read(tmp_path, MADE[name]))
    assert not [word for word in ("secret", "10.9.8.7", "10_9_8_7") if word in shown]


@pytest.mark.parametrize("one_of", [4, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", MADE)
def test_a_table_or_column_that_a_version_lacks_leaves_the_rest(tmp_path: Path, name: str, one_of: int) -> None:
    """No number is larger without the table or column."""
    whole = _only(_read(tmp_path, MADE[name]))
    shorter = _without_each_table(MADE[name]) + _without_each_column(MADE[name])[::one_of]
    for number, tables in enumerate(shorter):
        path = write(tmp_path / f"{number}.db", tables)
        try:
            facts = read(path)
        except ValueError:
            continue  # no format recognises the rest: `format_of` has nothing to unpack
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
