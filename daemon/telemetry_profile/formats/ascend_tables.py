"""Reads Ascend's tables of operators and steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from telemetry_profile.facts.csv_tables import CsvRows, first_line_predicate, headings_predicate
from telemetry_profile.facts.device_timeline import LinkSums, Timeline
from telemetry_profile.facts.kernel_kinds import work_of
from telemetry_profile.facts.printed_numbers import MS, US, S, cell_ns, nanoseconds, parse_count, parse_index
from telemetry_profile.facts.sql_columns import integer, records, text
from telemetry_profile.format_contract import (
    Call,
    Card,
    DatabaseFormat,
    Device,
    Facts,
    FileSample,
    Kernel,
    Schema,
    Split,
    Step,
    Tables,
    TextFormat,
    Work,
    sort_kernels,
)

_TOOL = "Ascend profiler"
# Pairs: (heading in torch_npu's kernel_details.csv, heading in msprof's op_summary.csv).
_TYPE, _NAME, _CORE = ("Type", "OP Type"), ("Name", "Op Name"), ("Accelerator Core", "Task Type")
_BEGIN, _LENGTH = ("Start Time(us)", "Task Start Time(us)"), ("Duration(us)", "Task Duration(us)")
_is_kernel_sum_heading = headings_predicate("OP Type", "Count", "Total Time(us)")
_is_call_heading = headings_predicate("API Name", "Time(us)", "Count")
_COMMUNICATION_CORES = frozenset({"HCCL", "COMMUNICATION"})
_MIN_UNIX_NS = 10**9 * S  # in 2001; smaller times count from the boot of the node
_is_step_heading = headings_predicate("Step", "Computing", "Communication", "Free")
_EXPOSED = "Communication(Not Overlapped)"
_ITERATION, _ITERATION_LENGTH = "Iteration ID", "Iteration Time(us)"
_is_iteration_heading = headings_predicate(_ITERATION, _ITERATION_LENGTH)
_DATA_WAIT = "Data Aug Bound(us)"  # the time between two iterations
_STEP_TABLES = ("ClusterStepTraceTime", "StepTraceTime")
_STEP_COLUMNS = (
    "step",
    "type",
    "index",
    "deviceId",
    "computing",
    "communication",
    "communication_not_overlapped",
    "free",
)
_LINK_TABLES = ("ClusterCommAnalyzerMatrix", "CommAnalyzerMatrix")
_LINK_COLUMNS = ("src_rank", "dst_rank", "transport_type", "transit_size", "transit_time", "hccl_op_name")
_ALL_OPERATORS = "Total Op Info"  # the name of the row with the sums of all other rows
_MEGABYTE = 10**6


def _is_task_heading(cells: Sequence[str]) -> bool:
    return all(any(name in cells for name in names) for names in (_TYPE, _NAME, _BEGIN, _LENGTH))


def _read_tasks(_file: FileSample, lines: Iterable[str]) -> Facts:
    timeline = Timeline()
    rows = CsvRows(lines, _is_task_heading)
    for row in rows:
        index = parse_index(row.get("Device_id", row.get("Device ID", "")))
        name = _first_cell(row, _TYPE)
        name = (name if name not in ("", "N/A") else _first_cell(row, _NAME)).rstrip("_")
        timeline.set_card(index, Card(index))
        timeline.add(
            index, _work_of_task(_first_cell(row, _CORE), name), cell_ns(_first_cell(row, _BEGIN), US), cell_ns(_first_cell(row, _LENGTH), US), name,
            block=_core_count_text(_first_cell(row, ("Block Dim", "Block Num"))),
        )  # fmt: skip
    # The files contain only operators, so copies and idle time are unknown.
    devices = tuple(device.without("copy_ns", "exposed_copy_ns", "idle_ns") for device in timeline.devices())
    is_unix = any((device.begin_ns or 0) >= _MIN_UNIX_NS for device in devices)
    return Facts(
        "ascend-runs",
        _TOOL,
        "unix" if is_unix else "boot",
        devices=devices,
        problems=(*rows.problems(), *timeline.problems()),
    )


def _work_of_task(core: str, name: str) -> Work:
    work: Work = "communication" if core in _COMMUNICATION_CORES else work_of(name)
    return "compute" if work == "copy" and core not in ("", "N/A") else work


def _is_sum_heading(cells: Sequence[str]) -> bool:
    return _is_kernel_sum_heading(cells) or _is_call_heading(cells)


def _read_sums(_file: FileSample, lines: Iterable[str]) -> Facts:
    kernels_by_card: dict[int | None, list[Kernel]] = {}
    calls: list[Call] = []
    rows = CsvRows(lines, _is_sum_heading)
    for row in rows:
        count, is_call = parse_count(row["Count"]), "API Name" in row
        total_ns = cell_ns(row["Time(us)" if is_call else "Total Time(us)"], US)
        if total_ns is None or count is None:
            rows.count_damaged_row()
        elif is_call:
            calls.append(Call(row["API Name"], count, total_ns))
        else:
            card_kernels = kernels_by_card.setdefault(parse_index(row.get("Device_id", "")), [])
            card_kernels.append(_kernel_of_row(row, count, total_ns))
    devices = tuple(Device(Card(index), kernels=sort_kernels(kernels)) for index, kernels in kernels_by_card.items())
    return Facts("ascend-sums", _TOOL, devices=devices, calls=tuple(calls), problems=rows.problems())


def _kernel_of_row(row: Mapping[str, str], count: int, total_ns: int) -> Kernel:
    name = row["OP Type"]
    work = _work_of_task(row["Core Type"], name) if "Core Type" in row else "communication"
    return Kernel(name.rstrip("_"), work, count, total_ns, cell_ns(row.get("Max Time(us)", ""), US))


def _first_cell(row: Mapping[str, str], names: Sequence[str]) -> str:
    return next((row[name] for name in names if name in row), "")


def _core_count_text(printed: str) -> str:
    """Return the number of cores as printed, or "" if it is 0."""
    return printed if parse_count(printed) else ""


class _StepsOfRanks:
    """The steps of each rank and card."""

    def __init__(self) -> None:
        self._whole_splits: dict[tuple[int | None, int | None], Split] = {}
        self._steps: dict[tuple[int | None, int | None], list[Step]] = {}

    def add(self, rank: int | None, card: int | None, step: str, split: Split) -> None:
        """Add how a rank spent a step. If `step` is empty, the split covers the whole time."""
        steps = self._steps.setdefault((rank, card), [])
        if step:
            steps.append(Step(f"step {step}", split))
        else:
            self._whole_splits[rank, card] = split

    def devices(self) -> tuple[Device, ...]:
        return tuple(
            Device(Card(card), rank, split=self._whole_splits.get((rank, card), Split()), steps=tuple(steps))
            for (rank, card), steps in self._steps.items()
        )

    def rank_count(self) -> int | None:
        return len({rank for rank, _ in self._steps if rank is not None}) or None


def _split_of(compute: int | None, communication: int | None, exposed: int | None, free: int | None) -> Split | None:
    if compute is None or communication is None or free is None:
        return None
    span = None if exposed is None else compute + exposed + free
    return Split(span, compute, communication, exposed, idle_ns=free)


def _read_steps(_file: FileSample, lines: Iterable[str]) -> Facts:
    rows, ranks = CsvRows(lines, _is_step_heading), _StepsOfRanks()
    for row in rows:
        if row.get("Type", "rank") != "rank":  # skip stages, because their ranks have their own rows
            continue
        step, exposed = row["Step"], cell_ns(row.get(_EXPOSED, ""), US)
        compute, communication, free = (cell_ns(row[name], US) for name in ("Computing", "Communication", "Free"))
        split = _split_of(compute, communication, exposed, free)
        if split is None or (step and parse_count(step) is None):
            rows.count_damaged_row()
        else:
            ranks.add(parse_index(row.get("Index", "")), parse_index(row.get("Device_id", "")), step, split)
    return Facts("ascend-steps", _TOOL, job_ranks=ranks.rank_count(), devices=ranks.devices(), problems=rows.problems())


def _read_iterations(_file: FileSample, lines: Iterable[str]) -> Facts:
    """Read each iteration as a step that includes the wait for data before it."""
    rows = CsvRows(lines, _is_iteration_heading)
    steps_by_device: dict[int | None, list[Step]] = {}
    for row in rows:
        length = cell_ns(row[_ITERATION_LENGTH], US)
        if length is None or parse_index(row[_ITERATION]) is None:
            rows.count_damaged_row()
            continue
        wait = cell_ns(row.get(_DATA_WAIT, ""), US)
        step = Step(f"Iteration {row[_ITERATION]}", Split(span_ns=length + (wait or 0), data_wait_ns=wait))
        steps_by_device.setdefault(parse_index(row.get("Device_id", "")), []).append(step)
    devices = tuple(Device(Card(index), steps=tuple(steps)) for index, steps in steps_by_device.items())
    return Facts("ascend-iteration-table", _TOOL, devices=devices, problems=rows.problems())


def _recognises_analysis(schema: Schema) -> bool:
    return "TASK" not in schema and any(name in schema for name in (*_STEP_TABLES, *_LINK_TABLES))


def _read_analysis(tables: Tables) -> Facts:
    ranks, links = _StepsOfRanks(), LinkSums()
    for table in _STEP_TABLES:
        for step, kind, rank, card, *times in records(tables, table, _STEP_COLUMNS):
            split = _split_of(*(_scale(time, US) for time in times))
            # Stages are skipped, because their ranks have their own rows.
            if split is not None and kind in (None, "rank"):
                ranks.add(integer(rank), integer(card), "" if step is None else str(step)[:20], split)
    for table in _LINK_TABLES:
        for source, target, kind, size, time, operation in records(tables, table, _LINK_COLUMNS):
            ends, byte_count, busy_ns = (integer(source), integer(target)), _scale(size, _MEGABYTE), _scale(time, MS)
            if None not in ends and ends[0] != ends[1] and operation != _ALL_OPERATORS and byte_count:
                links.add(text(kind)[:20], str(ends[0]), str(ends[1]), byte_count, busy_ns)
    return Facts("ascend-analysis", _TOOL, job_ranks=ranks.rank_count(), devices=ranks.devices(), links=links.links())


def _scale(value: object, unit: int) -> int | None:
    """Multiply a number by the unit. Return None if the number is negative or invalid."""
    scaled = nanoseconds(str(value), unit) if isinstance(value, int | float | str) else None
    return scaled if scaled is not None and scaled >= 0 else None


RUNS = TextFormat("ascend-runs", _TOOL, first_line_predicate(_is_task_heading), _read_tasks)
SUMS = TextFormat("ascend-sums", _TOOL, first_line_predicate(_is_sum_heading), _read_sums)
STEPS = TextFormat("ascend-steps", _TOOL, first_line_predicate(_is_step_heading), _read_steps)
ITERATIONS = TextFormat("ascend-iteration-table", _TOOL, first_line_predicate(_is_iteration_heading), _read_iterations)
ANALYSIS = DatabaseFormat("ascend-analysis", _TOOL, _recognises_analysis, _read_analysis)
