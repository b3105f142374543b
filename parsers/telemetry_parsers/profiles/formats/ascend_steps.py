"""Ascend's step_trace_time.csv, of one rank, and msprof-analyze's cluster_step_trace_time.csv, of all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from telemetry_parsers.profiles.contract import Clue, TextFormat
from telemetry_parsers.profiles.csv_rows import decimal_ns, dicts, first_cells
from telemetry_parsers.profiles.facts import Card, Device, Facts, Split, Step
from telemetry_parsers.profiles.times import US

_TOOL = "Ascend profiler"
_COLUMNS = {"Step", "Computing", "Communication", "Free"}
_EXPOSED = "Communication(Not Overlapped)"


def _recognises(clue: Clue) -> bool:
    return set(first_cells(clue.text)) >= _COLUMNS


@dataclass(slots=True)
class _Rank:
    whole: Split = field(default_factory=Split)
    steps: list[Step] = field(default_factory=list)


def _read(clue: Clue, lines: Iterable[str]) -> Facts:
    del clue
    ranks: dict[tuple[int | None, int | None], _Rank] = {}
    for row in dicts(lines, lambda cells: set(cells) >= _COLUMNS):
        if row.get("Type", "rank") != "rank":  # a stage is a group of ranks that have rows of their own
            continue
        split = _split(row)
        if split is None:
            continue
        found = ranks.setdefault((_number(row.get("Index", "")), _number(row.get("Device_id", ""))), _Rank())
        if row["Step"]:
            found.steps.append(Step(f"step {row['Step'][:20]}", split))
        else:
            found.whole = split
    devices = tuple(
        Device(Card(index), rank, split=one.whole, steps=tuple(one.steps)) for (rank, index), one in ranks.items()
    )
    return Facts("ascend-steps", _TOOL, ranks=len(devices) if len(devices) > 1 else None, devices=devices)


def _split(row: Mapping[str, str]) -> Split | None:
    compute, communication, exposed, free = (
        decimal_ns(row.get(column, ""), US) for column in ("Computing", "Communication", _EXPOSED, "Free")
    )
    if compute is None or communication is None or free is None or min(compute, communication, free, exposed or 0) < 0:
        return None
    span = None if exposed is None else compute + exposed + free
    return Split(span, compute, communication, exposed, idle_ns=free)


def _number(printed: str) -> int | None:
    return int(printed) if printed.isascii() and printed.isdigit() and len(printed) < 9 else None


FORMAT = TextFormat("ascend-steps", _TOOL, "headings Step, Computing, Communication, Free", _recognises, _read)
