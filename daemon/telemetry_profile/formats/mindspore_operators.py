"""MindSpore's operators and FLOPs: aicore and aicpu csv, flops_summary; and what it tells of the data queue."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from telemetry_profile.contract import Clue, TextFormat
from telemetry_profile.facts.file_facts import Call, Device, Facts, Flops, Hint, Kernel
from telemetry_profile.facts.headed_tables import Rows, count_of, decimal_ns, first_cells
from telemetry_profile.facts.kernel_kinds import work_of
from telemetry_profile.facts.printed_times import MS, US
from telemetry_profile.facts.timeline import MOST_NAME_CHARACTERS, MOST_NAMES, OTHERS

_TOOL = "MindSpore Profiler"
_NUMBER_IN_NAME = re.compile(r"_(\d{1,6})(_\w+)?\.(csv|json|txt)")
_LONGEST_JSON = 1 << 20


@dataclass(frozen=True, slots=True)
class _Layout:
    """The headings of one kind of file: what a row is of, its time and that one's unit, how often it ran, and its longest run."""

    name: str
    time: str
    unit: int
    count: str = ""
    longest: str = ""
    is_host: bool = False

    def fits(self, cells: Sequence[str]) -> bool:
        """Whether a line has all of these headings."""
        return {self.name, self.time, *filter(None, (self.count, self.longest))} <= set(cells)


# The first that fits. What the GPU's files call the time of an operator is what the host needs to launch it (`op_host_cost_time` in
# MindSpore's data_saver.h); the device's own is that of the CUDA activity.
_LAYOUTS = (
    _Layout("name", "total_duration(us)", US, "occurrences", "max_duration(us)"),
    _Layout("op_full_name", "cuda_activity_cost_time(us)", US, "cuda_activity_call_count"),
    _Layout("op_type", "total_time(us)", US, "type_occurrences", is_host=True),
    _Layout("full_op_name", "op_total_time(ms)", MS, "op_occurrences", is_host=True),
    _Layout("op_type", "total_compute_time", MS, "type_occurrences", is_host=True),
    _Layout("op_type", "execution_time", MS, "execution_frequency"),
    _Layout("full_op_name", "execution_time", MS),
    _Layout("kernel_type", "execution_time", MS),
    _Layout("full_kernel_name", "execution_time", MS),
    _Layout("full_kernel_name", "task_duration", MS),
)
_FLOPS = {"FLOPs", "FLOPS"}
_QUEUE = ("output_queue_usage_rate", "op_type")
_LOW = 0.2


def _layout(cells: Sequence[str]) -> _Layout | None:
    return next((layout for layout in _LAYOUTS if layout.fits(cells)), None)


def _recognises_operators(clue: Clue) -> bool:
    return _layout(first_cells(clue.text)) is not None


def _read_operators(clue: Clue, lines: Iterable[str]) -> Facts:
    layout = _layout(first_cells(clue.text))
    if layout is None:
        return Facts("mindspore-operators", _TOOL)
    rows = Rows(lines, layout.fits)
    sums: dict[str, _Sum] = {}
    for row in rows:
        name, time = row[layout.name], decimal_ns(row[layout.time], layout.unit)
        count = count_of(row[layout.count]) if layout.count else 1
        if time is None or count is None or not name:
            rows.bad()
            continue
        if len(sums) >= MOST_NAMES and name not in sums:
            name = OTHERS
        longest = decimal_ns(row[layout.longest], layout.unit) if layout.longest else time if count == 1 else None
        sums.setdefault(name[:MOST_NAME_CHARACTERS], _Sum()).add(count, time, longest)
    kernels = () if layout.is_host else tuple(one.kernel(name) for name, one in sums.items())
    calls = tuple(Call(name, one.calls, one.total_ns) for name, one in sums.items()) if layout.is_host else ()
    device = Device(rank=_rank(clue), kernels=tuple(sorted(kernels, key=lambda one: -one.total_ns)))
    return Facts(
        "mindspore-operators", _TOOL, devices=(device,) if kernels else (), calls=calls, problems=rows.problems()
    )


@dataclass(slots=True)
class _Sum:
    """All rows of one name; their longest run is unknown as soon as one row does not tell it."""

    calls: int = 0
    total_ns: int = 0
    longest_ns: int | None = 0

    def add(self, calls: int, total: int, longest: int | None) -> None:
        self.calls, self.total_ns = self.calls + calls, self.total_ns + total
        self.longest_ns = None if longest is None or self.longest_ns is None else max(self.longest_ns, longest)

    def kernel(self, name: str) -> Kernel:
        return Kernel(name, work_of(name.rpartition("/")[2]), self.calls, self.total_ns, self.longest_ns)


def _recognises_flops(clue: Clue) -> bool:
    return "FLOPS" in clue.text[:400] and set(_document(clue.text)) >= _FLOPS


def _read_flops(clue: Clue, lines: Iterable[str]) -> Facts:
    """FLOPs of a step, and per second. The utilization beside them is a mean over operators: no peak follows from it."""
    told = _document("\n".join(lines))
    operations, rate = _number(told.get("FLOPs")), _number(told.get("FLOPS"))
    if operations is None or rate is None:
        return Facts("mindspore-flops", _TOOL)
    flops = Flops("told", per_step=operations * 1e6, per_second=rate * 1e9)
    return Facts("mindspore-flops", _TOOL, devices=(Device(rank=_rank(clue), flops=flops),))


def _recognises_queue(clue: Clue) -> bool:
    return set(first_cells(clue.text)) >= set(_QUEUE)


def _read_queue(clue: Clue, lines: Iterable[str]) -> Facts:
    """How full the last queue of the data pipeline was: the one that the card takes its batches from."""
    del clue
    row = next(iter(Rows(lines, lambda cells: set(cells) >= set(_QUEUE))), None)
    try:
        usage = float(row["output_queue_usage_rate"]) if row else 1.0
    except ValueError:
        usage = 1.0
    if not 0.0 <= usage <= _LOW:
        return Facts("mindspore-data", _TOOL)
    text = f"the queue of prepared batches was {usage:.0%} full on average: the data pipeline is slower than the card"
    return Facts("mindspore-data", _TOOL, hints=(Hint("data", text),))


def _document(text: str) -> dict[str, Any]:
    try:
        told = json.loads(text) if len(text) < _LONGEST_JSON else {}
    except ValueError:  # cut off or another file: it tells no FLOPs
        return {}
    return told if isinstance(told, dict) else {}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e15 else None


def _rank(clue: Clue) -> int | None:
    found = _NUMBER_IN_NAME.search(clue.name)
    return int(found[1]) if found else None


OPERATORS = TextFormat("mindspore-operators", _TOOL, _recognises_operators, _read_operators)
FLOPS = TextFormat("mindspore-flops", _TOOL, _recognises_flops, _read_flops)
DATA = TextFormat("mindspore-data", _TOOL, _recognises_queue, _read_queue)
