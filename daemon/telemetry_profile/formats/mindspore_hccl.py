"""MindSpore's communication: hccl_raw_RANK.csv, with what each link moved in each step.

In rows that add operators up, the third number of a link is a sum of rates, ten times too high: only size and time are used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from telemetry_profile.contract import Clue, TextFormat
from telemetry_profile.facts.file_facts import Device, Facts, Link, Split, Step
from telemetry_profile.facts.headed_tables import MEAN, Rows, decimal_ns, first_cells, step_name
from telemetry_profile.facts.printed_times import MS

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
    rows = Rows(lines, lambda cells: set(cells) >= _COLUMNS)
    for row in rows:
        name, waited, told = step_name(row["step_num"]), decimal_ns(row["wait_cost"], MS), _document(row["link_info"])
        if not name or waited is None or told is None:
            rows.bad()
            continue
        is_mean = name == MEAN
        steps.append(Step(name, Split(wait_ns=waited), is_mean=is_mean))
        if not is_mean:
            for key, size, time in _links(told):
                known = links.get(key, (0, 0))
                links[key] = known[0] + size, known[1] + time
    return Facts(
        "mindspore-hccl",
        _TOOL,
        devices=(Device(rank=int(rank[1]) if rank else None, steps=tuple(steps)),) if steps else (),
        links=tuple(Link(*key, size, time) for key, (size, time) in links.items()),
        problems=rows.problems(),
    )


def _document(printed: str) -> dict[str, Any] | None:
    """The JSON in a cell; None where it is damaged."""
    try:
        told = json.loads(printed)
    except (ValueError, RecursionError):  # counted as a bad row by who asked
        return None
    return told if isinstance(told, dict) else None


def _links(told: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str, str], int, int]]:
    """Kind and ends, bytes and nanoseconds of each link."""
    for ends, kinds in told.items():
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


FORMAT = TextFormat("mindspore-hccl", _TOOL, _recognises, _read)
