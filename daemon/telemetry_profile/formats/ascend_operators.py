"""Ascend's operators: kernel_details.csv and op_summary.csv, a row for each run, and op_statistic.csv with their sums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from telemetry_profile.contract import Clue, TextFormat
from telemetry_profile.facts.file_facts import Call, Card, Device, Facts, Kernel, Work
from telemetry_profile.facts.headed_tables import Rows, count_of, decimal_ns, first_cells, number_of
from telemetry_profile.facts.kernel_kinds import work_of
from telemetry_profile.facts.printed_times import US, S
from telemetry_profile.facts.timeline import Timeline

_TOOL = "Ascend profiler"
# The same columns in kernel_details.csv (torch_npu) and in op_summary.csv (msprof).
_TYPE, _NAME, _CORE = ("Type", "OP Type"), ("Name", "Op Name"), ("Accelerator Core", "Task Type")
_BEGIN, _LENGTH = ("Start Time(us)", "Task Start Time(us)"), ("Duration(us)", "Task Duration(us)")
_SUM_COLUMNS = {"OP Type", "Count", "Total Time(us)"}
_CALL_COLUMNS = {"API Name", "Time(us)", "Count"}
_COMMUNICATION_CORES = frozenset({"HCCL", "COMMUNICATION"})
_UNIX_SINCE_NS = 10**9 * S  # the year 2001: no node has been up for so long


def _is_of_runs(cells: Sequence[str]) -> bool:
    return all(any(name in cells for name in names) for names in (_TYPE, _NAME, _BEGIN, _LENGTH))


def _recognises_runs(clue: Clue) -> bool:
    return _is_of_runs(first_cells(clue.text))


def _read_runs(clue: Clue, lines: Iterable[str]) -> Facts:
    del clue
    timeline = Timeline()
    rows = Rows(lines, _is_of_runs)
    for row in rows:
        index = number_of(row.get("Device_id", row.get("Device ID", "")))
        name = _first(row, _TYPE)
        name = (name if name not in ("", "N/A") else _first(row, _NAME)).rstrip("_")
        timeline.card(index, Card(index))
        timeline.add(
            index, _work(_first(row, _CORE), name), decimal_ns(_first(row, _BEGIN), US), decimal_ns(_first(row, _LENGTH), US), name,
            block=_block(_first(row, ("Block Dim", "Block Num"))),
        )  # fmt: skip
    devices = tuple(_without_copies(device) for device in timeline.devices())
    is_unix = any((device.begin_ns or 0) >= _UNIX_SINCE_NS for device in devices)
    return Facts(
        "ascend-runs",
        _TOOL,
        "unix" if is_unix else "boot",
        devices=devices,
        problems=(*rows.problems(), *timeline.problems()),
    )


def _work(core: str, name: str) -> Work:
    """What a task does. What runs on a core is no copy: MemSet is an operator of the vector cores."""
    work: Work = "communication" if core in _COMMUNICATION_CORES else work_of(name)
    return "compute" if work == "copy" and core not in ("", "N/A") else work


def _without_copies(device: Device) -> Device:
    """These files have operators only: neither copies nor idle time are known."""
    return replace(device, split=replace(device.split, copy_ns=None, exposed_copy_ns=None, idle_ns=None))


def _recognises_sums(clue: Clue) -> bool:
    cells = set(first_cells(clue.text))
    return cells >= _SUM_COLUMNS or cells >= _CALL_COLUMNS


def _read_sums(clue: Clue, lines: Iterable[str]) -> Facts:
    del clue
    kernels: dict[int | None, list[Kernel]] = {}
    calls: list[Call] = []
    rows = Rows(lines, lambda cells: set(cells) >= _SUM_COLUMNS or set(cells) >= _CALL_COLUMNS)
    for row in rows:
        count, is_call = count_of(row["Count"]), "API Name" in row
        time = decimal_ns(row["Time(us)" if is_call else "Total Time(us)"], US)
        if time is None or count is None:
            rows.bad()
        elif is_call:
            calls.append(Call(row["API Name"], count, time))
        else:
            kernels.setdefault(number_of(row.get("Device_id", "")), []).append(_sum(row, count, time))
    devices = tuple(
        Device(Card(index), kernels=tuple(sorted(each, key=lambda one: -one.total_ns)))
        for index, each in kernels.items()
    )
    return Facts("ascend-sums", _TOOL, devices=devices, calls=tuple(calls), problems=rows.problems())


def _sum(row: Mapping[str, str], count: int, time: int) -> Kernel:
    """All runs of one type of operator. communication_statistic.csv has collectives alone, and no type of core."""
    name = row["OP Type"]
    work = _work(row["Core Type"], name) if "Core Type" in row else "communication"
    return Kernel(name.rstrip("_"), work, count, time, decimal_ns(row.get("Max Time(us)", ""), US))


def _first(row: Mapping[str, str], names: Sequence[str]) -> str:
    return next((row[name] for name in names if name in row), "")


def _block(printed: str) -> str:
    """On how many cores a task ran; collectives print 0."""
    return printed if count_of(printed) else ""


RUNS = TextFormat("ascend-runs", _TOOL, _recognises_runs, _read_runs)
SUMS = TextFormat("ascend-sums", _TOOL, _recognises_sums, _read_sums)
