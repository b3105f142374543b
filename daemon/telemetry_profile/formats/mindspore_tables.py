"""Reads MindSpore's tables of steps, operators and collectives, and its other small files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from telemetry_parsers.model import Problem
from telemetry_profile.facts.csv_tables import CsvRows, first_cells, first_line_predicate, headings_predicate
from telemetry_profile.facts.device_timeline import MAX_NAMES, OTHERS, LinkSums
from telemetry_profile.facts.intervals import Intervals
from telemetry_profile.facts.kernel_kinds import work_of
from telemetry_profile.facts.printed_numbers import MS, US, cell_ns, parse_count
from telemetry_profile.format_contract import (
    Call,
    Device,
    Facts,
    FileSample,
    Flops,
    Hint,
    Kernel,
    Split,
    Step,
    TextFormat,
    sort_kernels,
)

_TOOL = "MindSpore Profiler"
_NS_PER_TICK = 10  # the counter of the device runs at 100 MHz
_MEAN = "mean"
_is_step_heading = headings_predicate("step_num", "total", "iteration_interval", "fp_and_bp", "tail")
_RANK_IN_STEP_NAME = re.compile(r"step_trace_raw_(\d{1,6})_")
_RANK_IN_CLUSTER_NAME = re.compile(r"_\d{1,6}_\d{1,6}_(\d{1,6})\.csv")
# Headings depend on the kind of parallelism. Only data-parallel jobs have times in ticks.
_COMPUTE_HEADINGS = ("computation_time", "computation")
_EXPOSED_HEADING = "communication_alone_time"
_DATA_PARALLEL_HEADINGS = {"iteration_interval", "fp_and_bp", "tail"}
_ANY_RANK = re.compile(r"_(\d{1,6})(_\w+)?\.(csv|json|txt)")
_SUMS_BY_TYPE = re.compile(r"ai_?core_\w*type\w*\.csv\Z")
_MAX_JSON_LENGTH = 1 << 20
_FLOPS_KEYS = {"FLOPs", "FLOPS"}
_is_queue_heading = headings_predicate("output_queue_usage_rate", "op_type")
_MAX_LOW_USAGE = 0.2
_is_collective_heading = headings_predicate("step_num", "communication_cost", "wait_cost", "link_info")
_RANK_IN_HCCL_NAME = re.compile(r"hccl_raw_(\d{1,6})\.csv")
_KILOBYTE = 1000
_RANK_PAIR = re.compile(r"(\d{1,6})-(\d{1,6})\Z")


def _read_steps(file: FileSample, lines: Iterable[str]) -> Facts:
    rows = CsvRows(lines, _is_step_heading)
    steps = []
    for row in rows:
        name, total = _step_name(row["step_num"]), _tick_ns(row, "total")
        if not name or total is None:
            rows.count_damaged_row()
        elif total:  # a mean of 0 means that there were no steps
            split = Split(
                span_ns=total, data_wait_ns=_tick_ns(row, "iteration_interval"), communication_ns=_collective_ns(row)
            )
            steps.append(Step(name, split, is_mean=name == _MEAN))
    return _create_facts("mindspore-steps", _find_rank(_RANK_IN_STEP_NAME, file), steps, rows.problems())


def _collective_ns(row: Mapping[str, str]) -> int | None:
    """Return how long any collective ran within the step, or None if the row has no times of collectives."""
    names = [column.removesuffix("start_point") for column in row if column.endswith("_start_point")]
    pairs = [(_tick_ns(row, f"{name}start_point"), _tick_ns(row, f"{name}end_point")) for name in names]
    intervals = [(begin, end) for begin, end in pairs if begin is not None and end is not None and end >= begin]
    begin, end = _tick_ns(row, "start_point"), _tick_ns(row, "end_point")
    if not intervals or begin is None or end is None or end < begin:
        return None
    return Intervals.from_sorted(sorted(intervals)).coverage(begin, end)


def _is_cluster_heading(cells: Sequence[str]) -> bool:
    has_milliseconds = any(name in cells for name in _COMPUTE_HEADINGS) and _EXPOSED_HEADING in cells
    return has_milliseconds or set(cells) == _DATA_PARALLEL_HEADINGS


def _read_cluster(file: FileSample, lines: Iterable[str]) -> Facts:
    rows = CsvRows(lines, _is_cluster_heading)
    splits: dict[int, Split] = {}
    for row in rows:
        split = _cluster_split(row)
        if split is None:
            rows.count_damaged_row()
        else:
            splits[rows.row_number] = split
    # The last row is the mean, unless there is only one row.
    mean_row = rows.row_number if rows.row_number > 1 else 0
    steps = [
        Step(_MEAN if number == mean_row else f"step {number}", split, is_mean=number == mean_row)
        for number, split in splits.items()
    ]
    return _create_facts("mindspore-cluster", _find_rank(_RANK_IN_CLUSTER_NAME, file), steps, rows.problems())


def _cluster_split(row: Mapping[str, str]) -> Split | None:
    if set(row) == _DATA_PARALLEL_HEADINGS:
        parts = [_tick_ns(row, column) for column in ("iteration_interval", "fp_and_bp", "tail")]
        if None in parts:
            return None
        return Split(span_ns=sum(value or 0 for value in parts), data_wait_ns=parts[0])
    compute = next((cell_ns(row[column], MS) for column in _COMPUTE_HEADINGS if column in row), None)
    exposed = cell_ns(row[_EXPOSED_HEADING], MS)
    if compute is None or exposed is None:
        return None
    return Split(span_ns=compute + exposed, compute_ns=compute, exposed_communication_ns=exposed)


def _step_name(cell: str) -> str:
    """Return the name of a step or of the mean, or "" if the cell contains neither."""
    if cell in ("-", "0"):
        return _MEAN
    return f"step {cell}" if parse_count(cell) is not None else ""


def _tick_ns(row: Mapping[str, str], column: str) -> int | None:
    return cell_ns(row.get(column, ""), _NS_PER_TICK)


def _find_rank(pattern: re.Pattern[str], file: FileSample) -> int | None:
    match = pattern.search(file.name)
    return int(match[1]) if match else None


def _create_facts(name: str, rank: int | None, steps: Sequence[Step], problems: tuple[Problem, ...]) -> Facts:
    devices = (Device(rank=rank, steps=tuple(steps)),) if steps else ()
    return Facts(name, _TOOL, devices=devices, problems=problems)


@dataclass(frozen=True, slots=True)
class _Headings:
    """The headings in a table of operators. `unit` is the length of the time unit in nanoseconds."""

    name: str
    time: str
    unit: int
    count: str = ""
    longest: str = ""
    is_host: bool = False

    def fits(self, cells: Sequence[str]) -> bool:
        return {self.name, self.time, *filter(None, (self.count, self.longest))} <= set(cells)


# The first headings that fit are used. `op_total_time` of a GPU operator is the host's launch time (see
# `op_host_cost_time` in MindSpore's data_saver.h).
_OPERATOR_HEADINGS = (
    _Headings("name", "total_duration(us)", US, "occurrences", "max_duration(us)"),
    _Headings("op_full_name", "cuda_activity_cost_time(us)", US, "cuda_activity_call_count"),
    _Headings("op_type", "total_time(us)", US, "type_occurrences", is_host=True),
    _Headings("full_op_name", "op_total_time(ms)", MS, "op_occurrences", is_host=True),
    _Headings("op_type", "total_compute_time", MS, "type_occurrences", is_host=True),
    _Headings("op_type", "execution_time", MS, "execution_frequency"),
    _Headings("full_op_name", "execution_time", MS),
    _Headings("kernel_type", "execution_time", MS, "execution_frequency"),
    _Headings("kernel_type", "execution_time", MS),
    _Headings("full_kernel_name", "execution_time", MS),
    _Headings("full_kernel_name", "task_duration", MS),
)


def _find_headings(cells: Sequence[str]) -> _Headings | None:
    return next((headings for headings in _OPERATOR_HEADINGS if headings.fits(cells)), None)


def _recognises_operators(file: FileSample) -> bool:
    return _SUMS_BY_TYPE.match(file.name) is not None or _find_headings(first_cells(file.text)) is not None


def _read_operators(file: FileSample, lines: Iterable[str]) -> Facts:
    headings = _find_headings(first_cells(file.text))
    if headings is None:
        return Facts("mindspore-operators", _TOOL)
    rows = CsvRows(lines, headings.fits)
    sums: dict[str, Kernel] = {}
    for row in rows:
        name, time = row[headings.name], cell_ns(row[headings.time], headings.unit)
        count = parse_count(row[headings.count]) if headings.count else 1
        if time is None or count is None or not name:
            rows.count_damaged_row()
            continue
        if len(sums) >= MAX_NAMES and name not in sums:
            name = OTHERS
        longest = cell_ns(row[headings.longest], headings.unit) if headings.longest else time if count == 1 else None
        kernel, previous = Kernel(name, work_of(name.rpartition("/")[2]), count, time, longest), sums.get(name)
        sums[name] = kernel if previous is None else previous.plus(kernel)
    facts = Facts("mindspore-operators", _TOOL, problems=rows.problems())
    if headings.is_host or not sums:
        return replace(facts, calls=tuple(Call(name, kernel.calls, kernel.total_ns) for name, kernel in sums.items()))
    return replace(facts, devices=(Device(rank=_find_rank(_ANY_RANK, file), kernels=sort_kernels(sums.values())),))


def _recognises_flops(file: FileSample) -> bool:
    return "FLOPS" in file.text[:400] and set(_parse_object(file.text) or ()) >= _FLOPS_KEYS


def _read_flops(file: FileSample, lines: Iterable[str]) -> Facts:
    document = _parse_object("\n".join(lines)) or {}
    operations, rate = _number(document.get("FLOPs")), _number(document.get("FLOPS"))
    if operations is None or rate is None:
        return Facts("mindspore-flops", _TOOL)
    flops = Flops("told", per_step=operations * 1e6, per_second=rate * 1e9)
    return Facts("mindspore-flops", _TOOL, devices=(Device(rank=_find_rank(_ANY_RANK, file), flops=flops),))


def _read_queue(_file: FileSample, lines: Iterable[str]) -> Facts:
    """Read how full the queue of prepared batches was. Add a hint if the queue was almost empty."""
    row = next(iter(CsvRows(lines, _is_queue_heading)), None)
    try:
        usage = float(row["output_queue_usage_rate"]) if row else 1.0
    except ValueError:
        usage = 1.0
    if not 0.0 <= usage <= _MAX_LOW_USAGE:
        return Facts("mindspore-data", _TOOL)
    text = f"the queue of prepared batches was {usage:.0%} full on average: the data pipeline is slower than the card"
    return Facts("mindspore-data", _TOOL, hints=(Hint("data", text),))


def _parse_object(text: str) -> dict[str, Any] | None:
    """Parse a JSON object. Return None if the object is damaged or too large."""
    try:
        document = json.loads(text) if len(text) < _MAX_JSON_LENGTH else None
    except (ValueError, RecursionError):  # the caller reports the damage
        return None
    return document if isinstance(document, dict) else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e15 else None


def _read_hccl(file: FileSample, lines: Iterable[str]) -> Facts:
    steps: list[Step] = []
    links = LinkSums()
    rows = CsvRows(lines, _is_collective_heading)
    for row in rows:
        name, wait_ns = _step_name(row["step_num"]), cell_ns(row["wait_cost"], MS)
        transfers = _parse_object(row["link_info"])
        if not name or wait_ns is None or transfers is None:
            rows.count_damaged_row()
            continue
        is_mean = name == _MEAN
        steps.append(Step(name, Split(wait_ns=wait_ns), is_mean=is_mean))
        if not is_mean:
            _add_links(links, transfers)
    facts = _create_facts("mindspore-hccl", _find_rank(_RANK_IN_HCCL_NAME, file), steps, rows.problems())
    return replace(facts, links=links.links())


def _add_links(links: LinkSums, transfers: Mapping[str, Any]) -> None:
    for ends, kinds in transfers.items():
        match = _RANK_PAIR.match(str(ends))
        if match is None or not isinstance(kinds, Mapping):
            continue
        for kind, numbers in kinds.items():
            # A card's copies to itself do not use a link between cards.
            scope = " within a card" if match[1] == match[2] else ""
            links.add(f"{str(kind)[:20]}{scope}", match[1], match[2], *_size_and_time(numbers))


def _size_and_time(numbers: Any) -> tuple[int, int]:  # JSON of any shape
    # The third number is a rate, which is ten times too high in rows that sum up operators.
    time, size = (
        (_number(number) for number in numbers[:2]) if isinstance(numbers, list) and numbers[1:] else (None, None)
    )
    return (0, 0) if time is None or size is None else (round(size * _KILOBYTE), round(time * MS))


STEPS = TextFormat("mindspore-steps", _TOOL, first_line_predicate(_is_step_heading), _read_steps)
CLUSTER = TextFormat("mindspore-cluster", _TOOL, first_line_predicate(_is_cluster_heading), _read_cluster)
OPERATORS = TextFormat("mindspore-operators", _TOOL, _recognises_operators, _read_operators)
FLOPS = TextFormat("mindspore-flops", _TOOL, _recognises_flops, _read_flops)
DATA = TextFormat("mindspore-data", _TOOL, first_line_predicate(_is_queue_heading), _read_queue)
HCCL = TextFormat("mindspore-hccl", _TOOL, first_line_predicate(_is_collective_heading), _read_hccl)
