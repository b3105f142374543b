"""MindSpore's communication: hccl_raw_RANK.csv, with what each link moved in each step.

In rows that add operators up, the third number of a link is a sum of rates, ten times too high: only size and time are used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from telemetry_parsers.model import Problem
from telemetry_parsers.profiles.contract import Clue, TextFormat
from telemetry_parsers.profiles.csv_rows import decimal_ns, dicts, first_cells
from telemetry_parsers.profiles.facts import Device, Facts, Link, Split, Step
from telemetry_parsers.profiles.times import MS

_TOOL = "MindSpore Profiler"
_COLUMNS = {"step_num", "communication_cost", "wait_cost", "link_info"}
_RANK = re.compile(r"hccl_raw_(\d{1,6})\.csv")
_KILOBYTE = 1000
_ENDS = re.compile(r"(\d{1,6})-(\d{1,6})\Z")


def _recognises(clue: Clue) -> bool:
    return set(first_cells(clue.text)) >= _COLUMNS


def _read(clue: Clue, lines: Iterable[str]) -> Facts:
    rank = _RANK.search(clue.name)
    steps: list[Step] = []
    links: dict[tuple[str, str, str], tuple[int, int]] = {}
    bad = 0
    for row in dicts(lines, lambda cells: set(cells) >= _COLUMNS):
        moved, waited = decimal_ns(row["communication_cost"], MS), decimal_ns(row["wait_cost"], MS)
        if moved is None or waited is None or moved < 0 or waited < 0:
            bad += 1
            continue
        is_mean = row["step_num"] in ("-", "0")
        steps.append(
            Step("mean" if is_mean else f"step {row['step_num'][:20]}", Split(wait_ns=waited), is_mean=is_mean)
        )
        if not is_mean:
            for key, size, time in _links(row["link_info"]):
                known = links.get(key, (0, 0))
                links[key] = known[0] + size, known[1] + time
    return Facts(
        "mindspore-hccl",
        _TOOL,
        devices=(Device(rank=int(rank[1]) if rank else None, steps=tuple(steps)),) if steps else (),
        links=tuple(Link(*key, size, time) for key, (size, time) in links.items()),
        problems=(Problem("rows", f"{bad} have no times, and are left out"),) if bad else (),
    )


def _links(printed: str) -> Iterator[tuple[tuple[str, str, str], int, int]]:
    """Kind and ends, bytes and nanoseconds of each link."""
    try:
        told = json.loads(printed)
    except ValueError:
        return
    for ends, kinds in told.items() if isinstance(told, dict) else ():
        found = _ENDS.match(str(ends))
        if found is None or not isinstance(kinds, Mapping):
            continue
        for kind, numbers in kinds.items():
            size, time = _size_and_time(numbers)
            if time > 0:
                # A card's copies to itself are no link between cards.
                own = " within a card" if found[1] == found[2] else ""
                yield (f"{str(kind)[:20]}{own}", found[1], found[2]), size, time


def _size_and_time(numbers: Any) -> tuple[int, int]:  # JSON of any shape
    if (
        isinstance(numbers, list)
        and len(numbers) >= 2
        and all(isinstance(one, int | float) and 0 <= one < 1e12 for one in numbers[:2])
    ):
        return round(numbers[1] * _KILOBYTE), round(numbers[0] * MS)
    return 0, 0


FORMAT = TextFormat(
    "mindspore-hccl", _TOOL, "headings step_num, communication_cost, wait_cost, link_info", _recognises, _read
)
