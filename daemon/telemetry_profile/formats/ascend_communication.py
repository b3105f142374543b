"""Ascend's communication.json and communication_matrix.json of a rank, and cluster_communication.json and its matrix of all ranks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from telemetry_profile.contract import Clue, TextFormat
from telemetry_profile.facts.file_facts import THIS_RANK, Device, Facts, FirstCollective, Kernel, Link, Split, Step
from telemetry_profile.facts.first_collective import waiting_first
from telemetry_profile.facts.printed_times import MS, US
from telemetry_profile.facts.timeline import MOST_NAME_CHARACTERS, MOST_NAMES
from telemetry_profile.facts.whole_json import document

_TOOL = "Ascend profiler"
_TIME, _BANDWIDTH = "Communication Time Info", "Communication Bandwidth Info"
_MATRIX_MARKS = ("Transport Type", "Transit Size(MB)", "Transit Time(ms)")
_MEGABYTE = 10**6
_SUM_OF_KINDS = "SDMA"  # of HCCS, PCIE and SIO, where all of them are told
_KINDS = frozenset({"HCCS", "HCCS_SW", "PCIE", "RDMA", "ROCE", "STANDARD_ROCE", "SIO", "UB", _SUM_OF_KINDS})
# What repeats others: all of a group added up, and of a matrix the slowest and fastest calls beside the sum of them (`allreduce-total@…`).
_REPEATS = re.compile(r"Total Op Info(@|\Z)|[-_](top|middle|bottom)\d*(@|\Z)")
# hcom_allReduce__445_0_1@6297232067196334501: the number of the call and the group follow the name.
_CALL = re.compile(r"(__\d+)?(_\d+)*\Z")
_STEP = re.compile(r"step\s*(\d{1,18})\Z", re.IGNORECASE)
_ENDS = re.compile(r"(\d{1,6})-(\d{1,6})\Z")
_RANK = re.compile(r"\d{1,6}\Z")


def _recognises(clue: Clue) -> bool:
    text = clue.text
    return text.lstrip().startswith("{") and (
        f'"{_TIME}"' in text or all(f'"{mark}"' in text for mark in _MATRIX_MARKS)
    )


@dataclass(slots=True)
class _Rank:
    kernels: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    waits: dict[str, int] = field(default_factory=dict)
    calls: list[tuple[int, int, int]] = field(default_factory=list)

    def add(self, name: str, step: str, times: Mapping[str, Any], elapsed: int) -> None:
        """Count one collective; outside of steps begin, length and wait of each are kept."""
        calls, total, longest = self.kernels.get(name, (0, 0, 0))
        self.kernels[name] = calls + 1, total + elapsed, max(longest, elapsed)
        begin, waited = _number(times, "Start Timestamp(us)", 1e17), _ns(times, "Wait Time(ms)")
        if waited is not None:
            self.waits[step] = self.waits.get(step, 0) + waited
        if begin is not None and waited is not None and not step:
            self.calls.append((round(begin * US), elapsed, waited))

    def first_collective(self) -> FirstCollective | None:
        """The one in which the rank waits for the others' profilers, and how long it waits in the others."""
        first = waiting_first([begin for begin, _, _ in self.calls], [elapsed for _, elapsed, _ in self.calls])
        if first is None:
            return None
        _, elapsed, waited = self.calls[first]
        return FirstCollective(elapsed, Split(wait_ns=self.waits[""] - waited))


@dataclass(slots=True)
class _Found:
    ranks: dict[int | None, _Rank] = field(default_factory=dict)
    links: dict[tuple[str, str, str], tuple[int, int]] = field(default_factory=dict)


def _read(clue: Clue, lines: Iterable[str]) -> Facts:
    del clue
    found = _Found()
    for path, info in _infos(document(lines), ()):
        if _TIME in info:
            _take_times(path, info, found)
        else:
            _take_link(path, info, found)
    devices = tuple(_device(rank, one) for rank, one in sorted(found.ranks.items(), key=lambda each: each[0] or 0))
    links = tuple(Link(*key, size, time) for key, (size, time) in found.links.items())
    return Facts("ascend-communication", _TOOL, devices=devices, links=links)


def _infos(node: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """What is told of each operation, with the keys above: ranks, step, operation, and the rank or the two ends."""
    if not isinstance(node, dict) or len(path) > 6 or (path and _REPEATS.search(path[-1])):
        return
    if _TIME in node or "Transport Type" in node:
        yield path, node
        return
    for key, value in node.items():
        yield from _infos(value, (*path, str(key)))


def _take_times(path: tuple[str, ...], info: Mapping[str, Any], found: _Found) -> None:
    times = info[_TIME]
    elapsed = _ns(times, "Elapse Time(ms)")
    if elapsed is None:
        return
    # Of all ranks, the rank is the innermost key; of one, the operation is.
    is_ranked = len(path) > 1 and bool(_RANK.match(path[-1]))
    rank = found.ranks.setdefault(int(path[-1]) if is_ranked else None, _Rank())
    step = next((numbered[1] for key in path if (numbered := _STEP.match(key))), "")
    rank.add(_name(path[-2 if is_ranked else -1]), step, times, elapsed)
    _take_transports(info.get(_BANDWIDTH), path[-1] if is_ranked else "", found)


def _name(printed: str) -> str:
    """A collective without the number of the call, and without its group, which may hold the address of a node."""
    return _CALL.sub("", printed.partition("@")[0])[:MOST_NAME_CHARACTERS] or "collective"


def _take_transports(transports: Any, rank: str, found: _Found) -> None:
    for kind, numbers in transports.items() if isinstance(transports, dict) else ():
        if kind in _KINDS and kind != _SUM_OF_KINDS:
            _add(found, (kind, rank or THIS_RANK, "all"), numbers)


def _take_link(path: tuple[str, ...], info: Mapping[str, Any], found: _Found) -> None:
    """One link of a matrix. A rank's own file counts the ranks within the group of the collective, and that of all ranks from 0 to the last."""
    ends, kind = _ENDS.match(path[-1]) if path else None, info["Transport Type"]
    if ends is not None and ends[1] != ends[2] and isinstance(kind, str) and kind in _KINDS:
        is_of_all = not path[0].lower().startswith("step")
        _add(found, (kind if is_of_all else f"{kind} in a group", ends[1], ends[2]), info)


def _add(found: _Found, key: tuple[str, str, str], numbers: Any) -> None:
    time, size = _ns(numbers, "Transit Time(ms)"), _number(numbers, "Transit Size(MB)")
    if time and size and (key in found.links or len(found.links) < MOST_NAMES):
        known = found.links.get(key, (0, 0))
        found.links[key] = known[0] + round(size * _MEGABYTE), known[1] + time


def _number(numbers: Any, key: str, most: float = 1e12) -> float | None:
    value = numbers.get(key) if isinstance(numbers, dict) else None
    return float(value) if isinstance(value, int | float) and 0 <= value < most else None


def _ns(numbers: Any, key: str) -> int | None:
    value = _number(numbers, key)
    return None if value is None else round(value * MS)


def _device(rank: int | None, one: _Rank) -> Device:
    kernels = [
        Kernel(name, "communication", calls, total, longest) for name, (calls, total, longest) in one.kernels.items()
    ]
    steps = tuple(Step(f"step {step}", Split(wait_ns=waited)) for step, waited in one.waits.items() if step)
    return Device(
        rank=rank,
        split=Split(wait_ns=one.waits.get("")),
        steps=steps,
        kernels=tuple(sorted(kernels, key=lambda one: -one.total_ns)),
        first_collective=one.first_collective(),
    )


FORMAT = TextFormat("ascend-communication", _TOOL, _recognises, _read)
