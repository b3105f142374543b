"""Ascend's analysis.db of a rank, and msprof-analyze's cluster_analysis.db of all: steps as sums, and what went over links."""

from __future__ import annotations

from collections.abc import Iterator

from telemetry_profile.contract import DatabaseFormat, Schema, Tables
from telemetry_profile.facts.file_facts import Card, Device, Facts, Link, Split, Step
from telemetry_profile.facts.printed_times import MS, US, nanoseconds
from telemetry_profile.facts.sql_columns import integer, records, text

_TOOL = "Ascend profiler"
_STEPS = ("ClusterStepTraceTime", "StepTraceTime")
_LINKS = ("ClusterCommAnalyzerMatrix", "CommAnalyzerMatrix")
_TIMES = ("computing", "communication", "communication_not_overlapped", "free")
_LINK_COLUMNS = ("src_rank", "dst_rank", "transport_type", "transit_size", "transit_time", "hccl_op_name")
_SUM = "Total Op Info"  # the others, added up
_MEGABYTE = 10**6


def _recognises(schema: Schema) -> bool:
    return "TASK" not in schema and any(name in schema for name in (*_STEPS, *_LINKS))


def _read(tables: Tables) -> Facts:
    devices = tuple(_devices(tables))
    ranks = len({device.rank for device in devices if device.rank is not None})
    return Facts("ascend-analysis", _TOOL, ranks=ranks or None, devices=devices, links=tuple(_links(tables)))


def _devices(tables: Tables) -> Iterator[Device]:
    wholes: dict[tuple[int | None, int | None], Split] = {}
    steps: dict[tuple[int | None, int | None], list[Step]] = {}
    for table in _STEPS:
        for step, kind, rank, card, *times in records(tables, table, ("step", "type", "index", "deviceId", *_TIMES)):
            split = _split([_ns(time, US) for time in times])
            if split is None or kind not in (None, "rank"):  # a stage is a group of ranks that have rows of their own
                continue
            key = integer(rank), integer(card)
            if step in (None, ""):
                wholes[key] = split
            else:
                steps.setdefault(key, []).append(Step(f"step {str(step)[:20]}", split))
    for rank, card in dict.fromkeys((*wholes, *steps)):
        yield Device(
            Card(card), rank, split=wholes.get((rank, card), Split()), steps=tuple(steps.get((rank, card), ()))
        )


def _split(times: list[int | None]) -> Split | None:
    compute, communication, exposed, free = times
    if compute is None or communication is None or free is None:
        return None
    span = None if exposed is None else compute + exposed + free
    return Split(span, compute, communication, exposed, idle_ns=free)


def _links(tables: Tables) -> Iterator[Link]:
    found: dict[tuple[str, str, str], tuple[int, int]] = {}
    for table in _LINKS:
        for source, target, kind, size, time, operation in records(tables, table, _LINK_COLUMNS):
            ends, moved, busy = (integer(source), integer(target)), _ns(size, _MEGABYTE), _ns(time, MS)
            if None not in ends and ends[0] != ends[1] and operation != _SUM and moved and busy:
                key = text(kind)[:20], str(ends[0]), str(ends[1])
                known = found.get(key, (0, 0))
                found[key] = known[0] + moved, known[1] + busy
    return (Link(*key, *sums) for key, sums in found.items())


def _ns(value: object, unit: int) -> int | None:
    """A number in a unit, as so many of the smallest; None where it is none, or negative."""
    found = nanoseconds(str(value), unit) if isinstance(value, int | float | str) else None
    return found if found is not None and found >= 0 else None


FORMAT = DatabaseFormat("ascend-analysis", _TOOL, _recognises, _read)
