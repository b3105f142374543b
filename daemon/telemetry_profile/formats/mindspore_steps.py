"""MindSpore's steps: step_trace_raw_RANK_detail_time.csv and ascend_cluster_analyse_KIND_STAGE_SIZE_RANK.csv."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from telemetry_parsers.model import Problem
from telemetry_profile.contract import Clue, TextFormat
from telemetry_profile.facts.file_facts import Device, Facts, Split, Step
from telemetry_profile.facts.headed_tables import MEAN, Rows, decimal_ns, first_cells, step_name
from telemetry_profile.facts.printed_times import MS
from telemetry_profile.facts.timeline import Union

_TOOL = "MindSpore Profiler"
_TICK = 10  # nanoseconds: the counter of the device runs at 100 MHz
_STEP_COLUMNS = {"step_num", "total", "iteration_interval", "fp_and_bp", "tail"}
_RANK_IN_NAME = re.compile(r"step_trace_raw_(\d{1,6})_")
_CLUSTER_NAME = re.compile(r"_(\d{1,6})_(?P<size>\d{1,6})_(?P<rank>\d{1,6})\.csv")
# What the files of the three kinds of parallelism call the same thing; those in ticks are data-parallel.
_COMPUTE = ("computation_time", "computation")
_EXPOSED = "communication_alone_time"
_DATA_PARALLEL = {"iteration_interval", "fp_and_bp", "tail"}


def _recognises_steps(clue: Clue) -> bool:
    return set(first_cells(clue.text)) >= _STEP_COLUMNS


def _read_steps(clue: Clue, lines: Iterable[str]) -> Facts:
    rows = Rows(lines, lambda cells: set(cells) >= _STEP_COLUMNS)
    steps = []
    for row in rows:
        name, total = step_name(row["step_num"]), _ticks(row, "total")
        if not name or total is None:
            rows.bad()
        elif total:  # the mean of no steps is 0
            split = Split(
                span_ns=total, data_wait_ns=_ticks(row, "iteration_interval"), communication_ns=_collectives(row)
            )
            steps.append(Step(name, split, is_mean=name == MEAN))
    return _facts("mindspore-steps", _rank(_RANK_IN_NAME, clue), steps, rows.problems())


def _collectives(row: Mapping[str, str]) -> int | None:
    """The time of the step in which any collective ran; None in a file without them. One may have begun in the step before."""
    names = [
        column.removesuffix("_start_point")
        for column in row
        if column.endswith("_start_point") and column != "start_point"
    ]
    pairs = [(_ticks(row, f"{name}_start_point"), _ticks(row, f"{name}_end_point")) for name in names]
    told = [(begin, end) for begin, end in pairs if begin is not None and end is not None and end >= begin]
    begin, end = _ticks(row, "start_point"), _ticks(row, "end_point")
    if not told or begin is None or end is None or end < begin:
        return None
    return Union.of(told).within(begin, end)


def _recognises_cluster(clue: Clue) -> bool:
    cells = set(first_cells(clue.text))
    return (bool(cells & set(_COMPUTE)) and _EXPOSED in cells) or cells == _DATA_PARALLEL


def _read_cluster(clue: Clue, lines: Iterable[str]) -> Facts:
    rows = Rows(lines, lambda cells: _EXPOSED in cells or set(cells) == _DATA_PARALLEL)
    splits: dict[int, Split] = {}
    for row in rows:
        split = _cluster_split(row)
        if split is None:
            rows.bad()
        else:
            splits[rows.place] = split
    # The last row is the mean, but where there is only one step.
    last = rows.place if rows.place > 1 else 0
    steps = [
        Step(MEAN if number == last else f"step {number}", split, is_mean=number == last)
        for number, split in splits.items()
    ]
    found = _CLUSTER_NAME.search(clue.name)
    return _facts("mindspore-cluster", int(found["rank"]) if found else None, steps, rows.problems())


def _cluster_split(row: Mapping[str, str]) -> Split | None:
    if set(row) == _DATA_PARALLEL:
        told = [_ticks(row, column) for column in ("iteration_interval", "fp_and_bp", "tail")]
        if None in told:
            return None
        return Split(span_ns=sum(value or 0 for value in told), data_wait_ns=told[0])
    compute = next((decimal_ns(row[column], MS) for column in _COMPUTE if column in row), None)
    exposed = decimal_ns(row[_EXPOSED], MS)
    if compute is None or exposed is None:
        return None
    return Split(span_ns=compute + exposed, compute_ns=compute, exposed_communication_ns=exposed)


def _ticks(row: Mapping[str, str], column: str) -> int | None:
    return decimal_ns(row.get(column, ""), _TICK)


def _rank(pattern: re.Pattern[str], clue: Clue) -> int | None:
    found = pattern.search(clue.name)
    return int(found[1]) if found else None


def _facts(name: str, rank: int | None, steps: Sequence[Step], problems: tuple[Problem, ...]) -> Facts:
    devices = (Device(rank=rank, steps=tuple(steps)),) if steps else ()
    return Facts(name, _TOOL, devices=devices, problems=problems)


STEPS = TextFormat("mindspore-steps", _TOOL, _recognises_steps, _read_steps)
CLUSTER = TextFormat(
    "mindspore-cluster",
    _TOOL,
    _recognises_cluster,
    _read_cluster,
)
