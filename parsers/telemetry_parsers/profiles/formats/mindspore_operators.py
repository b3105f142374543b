"""MindSpore's operators and FLOPs: aicore and aicpu csv, flops_summary; and what it tells of the data queue."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from telemetry_parsers.profiles.contract import Clue, TextFormat
from telemetry_parsers.profiles.csv_rows import decimal_ns, dicts, first_cells
from telemetry_parsers.profiles.facts import Device, Facts, Flops, Hint, Kernel
from telemetry_parsers.profiles.times import MS, US
from telemetry_parsers.profiles.words import work_of

_TOOL = "MindSpore Profiler"
_NUMBER_IN_NAME = re.compile(r"_(\d{1,6})(_\w+)?\.(csv|json|txt)")
_LONGEST_JSON = 1 << 20
# Headings of the name, the time and its unit, and the count, in the versions seen.
_NAMES = ("op_type", "full_op_name", "kernel_type", "full_kernel_name", "op_name", "op_full_name")
_TIMES = (
    ("execution_time", MS),
    ("task_duration", MS),
    ("total_time", MS),
    ("op_total_time(us)", US),
    ("op_total_time", US),
)
_COUNTS = ("execution_frequency", "op_occurrences")
_FLOPS = {"FLOPs", "FLOPS"}
_QUEUE = ("output_queue_usage_rate", "op_type")
_LOW = 0.2


def _is_of_operators(cells: Sequence[str]) -> bool:
    return (
        any(name in cells for name in _NAMES)
        and any(name in cells for name, _ in _TIMES)
        and not set(_QUEUE) <= set(cells)
    )


def _recognises_operators(clue: Clue) -> bool:
    return _is_of_operators(first_cells(clue.text))


def _read_operators(clue: Clue, lines: Iterable[str]) -> Facts:
    sums: dict[str, tuple[int, int, int]] = {}
    for row in dicts(lines, _is_of_operators):
        name = next(row[column] for column in _NAMES if column in row)
        time = next(decimal_ns(row[column], unit) for column, unit in _TIMES if column in row)
        count = next((row[column] for column in _COUNTS if column in row), "1")
        if time is None or time < 0 or not name or not count.isdecimal() or len(count) > 18:
            continue
        calls, total, longest = sums.get(name, (0, 0, 0))
        sums[name] = calls + int(count), total + time, max(longest, time if count == "1" else 0)
    kernels = [
        Kernel(name, work_of(name), calls, total, longest or None) for name, (calls, total, longest) in sums.items()
    ]
    device = Device(rank=_rank(clue), kernels=tuple(sorted(kernels, key=lambda one: -one.total_ns)))
    return Facts("mindspore-operators", _TOOL, devices=(device,) if kernels else ())


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
    row = next(iter(dicts(lines, lambda cells: set(cells) >= set(_QUEUE))), None)
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
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e15 else None


def _rank(clue: Clue) -> int | None:
    found = _NUMBER_IN_NAME.search(clue.name)
    return int(found[1]) if found else None


OPERATORS = TextFormat(
    "mindspore-operators", _TOOL, "headings op_type, execution_time", _recognises_operators, _read_operators
)
FLOPS = TextFormat("mindspore-flops", _TOOL, "keys FLOPs, FLOPS", _recognises_flops, _read_flops)
DATA = TextFormat("mindspore-data", _TOOL, "headings op_type, output_queue_usage_rate", _recognises_queue, _read_queue)
