"""Processes on cards as the kernel reports them: user, start time, owner, and memory on each card."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Capture, Library, Plain, Poll, Problem, Report
from telemetry_parsers.owners.cgroups import group_of
from telemetry_parsers.ownership import Hold, Owner, Task
from telemetry_parsers.text.answers import capped, failed, not_read
from telemetry_parsers.text.lines import quote

_MOST_CHARACTERS = 16_384
_UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_MOST_BYTES = 1 << 60
_BUS_ID = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
# Memory on the card: amdgpu and xe print vram, i915 local. Resident memory is preferred to the older key.
_MEMORY = re.compile(r"drm-(resident|memory)-((?:vram|local)\d*)")
_QUANTITY = re.compile(r"(\d{1,20})(?: ([KMG]iB|B))?")


class Client(NamedTuple):
    """A client of a card's driver. The same client may appear in several open files, also those of forked processes."""

    bus_id: str
    number: str
    memory_bytes: int | None


def clients(texts: Iterable[str]) -> Iterator[Client]:
    """Yield the clients in these texts. A client that appears in two texts is yielded twice."""
    for text in texts:
        fields = dict(_fields(text))
        bus_id, number = fields.get("drm-pdev", "").lower(), fields.get("drm-client-id", "")
        if _BUS_ID.fullmatch(bus_id) and number.isdecimal():
            yield Client(bus_id, number, _memory(fields))


def holds(found: Iterable[Client]) -> list[Plain]:
    """Return the memory and busy time of these clients on each card, if the driver reports them."""
    of_card: dict[str, int] = {}
    for client in found:
        if client.memory_bytes is not None:
            of_card[client.bus_id] = of_card.get(client.bus_id, 0) + client.memory_bytes
    return [{"bus_id": bus_id, "memory_bytes": size} for bus_id, size in of_card.items()]


def _fields(text: str) -> Iterator[tuple[str, str]]:
    for line in text[:_MOST_CHARACTERS].split("\n"):
        key, colon, value = line.partition(":")
        if colon:
            yield key, value.strip()


def _memory(fields: dict[str, str]) -> int | None:
    """Return the bytes on the card, or None if the driver does not report them."""
    regions: dict[str, dict[str, int]] = {}
    for key, value in fields.items():
        match, quantity = _MEMORY.fullmatch(key), _QUANTITY.fullmatch(value)
        if match and quantity and (size := int(quantity[1]) * _UNITS[quantity[2] or ""]) < _MOST_BYTES:
            regions.setdefault(match[2], {})[match[1]] = size
    sizes = [region.get("resident", region.get("memory", 0)) for region in regions.values()]
    return sum(sizes) if sizes else None


_CALL = "processes"
# An output of this name shows that the processes were read, even if there are none.
_LISTED = "/proc"
_LARGEST_PID = 1 << 22
_LARGEST = 1e18
_LONGEST_KEY = 128
# The variables that name a job, with the prefix of the job's key, and those with the rank of a process.
_JOB_VARIABLES = (
    ("SLURM_JOB_ID", "slurm"),
    ("SLURM_JOB_SLUID", "sluid"),
    ("PBS_JOBID", "pbs"),
    ("FLUX_JOB_ID", "flux"),
)
_RANK_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "FLUX_TASK_RANK")


def parse(capture: Capture) -> Report:
    """Return a task for each process. A malformed process becomes a problem."""
    refusal = not_read(capture)
    if refusal is not None:
        return refusal
    problems: list[Problem] = []
    tasks = []
    listed = [output for output in capture.outputs if output.name == _LISTED]
    for output in capture.outputs:
        if output in listed:
            continue
        if (task := _task(output.data)) is None:
            problems.append(Problem(quote(output.name), "is not a process as the kernel reports it"))
        else:
            tasks.append(task)
    if not listed:
        return failed("not_understood", "proc", "the capture is not from the reader `proc`")
    return Report(tasks=tuple(tasks), problems=capped(problems), form="data")


def _task(data: Plain) -> Task | None:
    if not isinstance(data, dict):
        return None
    pid, ticks = _whole(data.get("pid"), _LARGEST_PID), _whole(data.get("ticks"), _LARGEST)
    if pid is None or ticks is None:
        return None
    group = group_of(_text(data, "cgroup"))
    user = _text(data, "user")
    owner = group.owner
    if owner is None or owner.kind == "user":
        owner = Owner("user", user, user=user) if user else owner
    task = Task(
        pid, ticks, _number(data.get("started")), user, _text(data, "command"), group.container, owner, group.keys
    )
    return _with_environment(replace(task, holds=tuple(_holds(data.get("holds")))), data.get("environment"))


def _with_environment(task: Task, environment: Plain) -> Task:
    """Return the task with the job and the rank in its variables. The owner found by cgroup has priority."""
    if not isinstance(environment, dict):
        return task
    named = {name: value for name in environment if (value := _text(environment, name))}
    jobs = [(key, named[name]) for name, key in _JOB_VARIABLES if len(named.get(name, "")) in range(1, _LONGEST_KEY)]
    rank = next((int(named[name]) for name in _RANK_VARIABLES if _is_rank(named.get(name, ""))), None)
    task = replace(task, rank=rank)
    if not jobs or (task.owner is not None and task.owner.kind not in ("user", "service", "job")):
        return task
    keys = tuple(dict.fromkeys((*task.keys, *(f"{key}:{number}" for key, number in jobs))))
    number = jobs[0][1]
    owner = task.owner if task.owner is not None and task.owner.kind == "job" else Owner("job", number, job_id=number)
    return replace(task, keys=keys, owner=owner)


def _holds(data: Plain) -> list[Hold]:
    if not isinstance(data, list):
        return []
    return [
        Hold(_text(item, "bus_id"), _number(item.get("memory_bytes")), _number(item.get("busy_seconds")))
        for item in data
        if isinstance(item, dict) and _text(item, "bus_id")
    ]


def _text(data: Mapping[str, Plain], key: str) -> str:
    value = data.get(key)
    return value if isinstance(value, str) else ""


def _number(value: Plain) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= _LARGEST else None


def _whole(value: Plain, most: float) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= most else None


def _is_rank(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 7


PARSER = SourceParser(
    name="proc",
    vendor="",
    gives=(),
    polls=(Poll("processes", Library("proc", (_CALL,)), interval=5.0, deadline=2.0, lists_devices=False),),
    parse=parse,
)
