"""Parses the kernel's data about processes that use cards."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Capture, Library, Plain, Poll, Problem, Report
from telemetry_parsers.owners.cgroups import owner_in_cgroup
from telemetry_parsers.ownership import Owner, ProcessUsage, Task
from telemetry_parsers.text.answers import capped, failed, reader_failure
from telemetry_parsers.text.lines import quote

_MAX_CHARACTERS = 16_384
_UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_MAX_BYTES = 1 << 60
_BUS_ID = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
# Memory on the card: amdgpu and xe print `vram`, i915 prints `local`. `drm-resident-` replaced `drm-memory-`.
_MEMORY = re.compile(r"drm-(resident|memory)-((?:vram|local)\d*)")
_QUANTITY = re.compile(r"(\d{1,20})(?: ([KMG]iB|B))?")


class DriverClient(NamedTuple):
    """A client of a card's driver, with one or several open files."""

    bus_id: str
    client_id: str
    memory_bytes: int | None


def parse_clients(texts: Iterable[str]) -> Iterator[DriverClient]:
    """Yield the driver client in each fdinfo text that describes one."""
    for text in texts:
        fields = dict(_parse_fields(text))
        bus_id, client_id = fields.get("drm-pdev", "").lower(), fields.get("drm-client-id", "")
        if _BUS_ID.fullmatch(bus_id) and client_id.isdecimal():
            yield DriverClient(bus_id, client_id, _card_memory(fields))


def memory_by_card(clients: Iterable[DriverClient]) -> list[Plain]:
    """Return the total memory of the clients on each card. Clients whose memory is unknown are omitted."""
    bytes_by_card: dict[str, int] = {}
    for client in clients:
        if client.memory_bytes is not None:
            bytes_by_card[client.bus_id] = bytes_by_card.get(client.bus_id, 0) + client.memory_bytes
    return [{"bus_id": bus_id, "memory_bytes": size} for bus_id, size in bytes_by_card.items()]


def _parse_fields(text: str) -> Iterator[tuple[str, str]]:
    for line in text[:_MAX_CHARACTERS].split("\n"):
        key, colon, value = line.partition(":")
        if colon:
            yield key, value.strip()


def _card_memory(fields: dict[str, str]) -> int | None:
    regions: dict[str, dict[str, int]] = {}
    for key, value in fields.items():
        match, quantity = _MEMORY.fullmatch(key), _QUANTITY.fullmatch(value)
        if match and quantity and (size := int(quantity[1]) * _UNITS[quantity[2] or ""]) < _MAX_BYTES:
            regions.setdefault(match[2], {})[match[1]] = size
    sizes = [region.get("resident", region.get("memory", 0)) for region in regions.values()]
    return sum(sizes) if sizes else None


_CALL = "processes"
# The reader always adds an output with this name, so that an empty list differs from a missing list.
_LIST_OUTPUT = "/proc"
_MAX_PID = 1 << 22
_MAX_NUMBER = 1e18
_MAX_KEY_LENGTH = 128
# Maps environment variables that contain a job id to the prefix of the job's key.
_JOB_VARIABLES = (
    ("SLURM_JOB_ID", "slurm"),
    ("SLURM_JOB_SLUID", "sluid"),
    ("PBS_JOBID", "pbs"),
    ("FLUX_JOB_ID", "flux"),
)
_RANK_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "FLUX_TASK_RANK")


def parse(capture: Capture) -> Report:
    """Return a task for each process."""
    failure = reader_failure(capture)
    if failure is not None:
        return failure
    problems: list[Problem] = []
    tasks = []
    lists = [output for output in capture.outputs if output.name == _LIST_OUTPUT]
    for output in capture.outputs:
        if output in lists:
            continue
        if (task := _parse_task(output.data)) is None:
            problems.append(Problem(quote(output.name), "is not a valid process"))
        else:
            tasks.append(task)
    if not lists:
        return failed("not_understood", "proc", "the capture is not from the reader `proc`")
    return Report(tasks=tuple(tasks), problems=capped(problems), form="data")


def _parse_task(data: Plain) -> Task | None:
    if not isinstance(data, dict):
        return None
    pid, ticks = _positive_integer(data.get("pid"), _MAX_PID), _positive_integer(data.get("ticks"), _MAX_NUMBER)
    if pid is None or ticks is None:
        return None
    cgroup = owner_in_cgroup(_text(data, "cgroup"))
    user = _text(data, "user")
    owner = cgroup.owner
    if owner is None or owner.kind == "user":
        owner = Owner("user", user, user=user) if user else owner
    task = Task(
        pid, ticks, _number(data.get("started")), user, _text(data, "command"), cgroup.container, owner, cgroup.keys
    )
    return _with_environment(replace(task, holds=tuple(_parse_usages(data.get("holds")))), data.get("environment"))


def _with_environment(task: Task, environment: Plain) -> Task:
    """Return the task with the job and the rank from its environment variables."""
    if not isinstance(environment, dict):
        return task
    values = {name: value for name in environment if (value := _text(environment, name))}
    jobs = [
        (key, values[name]) for name, key in _JOB_VARIABLES if len(values.get(name, "")) in range(1, _MAX_KEY_LENGTH)
    ]
    rank = next((int(values[name]) for name in _RANK_VARIABLES if _is_rank(values.get(name, ""))), None)
    task = replace(task, rank=rank)
    if not jobs or (task.owner is not None and task.owner.kind not in ("user", "service", "job")):
        return task
    keys = tuple(dict.fromkeys((*task.keys, *(f"{key}:{job_id}" for key, job_id in jobs))))
    job_id = jobs[0][1]
    owner = task.owner if task.owner is not None and task.owner.kind == "job" else Owner("job", job_id, job_id=job_id)
    return replace(task, keys=keys, owner=owner)


def _parse_usages(data: Plain) -> list[ProcessUsage]:
    if not isinstance(data, list):
        return []
    return [
        ProcessUsage(_text(item, "bus_id"), _number(item.get("memory_bytes")), _number(item.get("busy_seconds")))
        for item in data
        if isinstance(item, dict) and _text(item, "bus_id")
    ]


def _text(data: Mapping[str, Plain], key: str) -> str:
    value = data.get(key)
    return value if isinstance(value, str) else ""


def _number(value: Plain) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= _MAX_NUMBER else None


def _positive_integer(value: Plain, maximum: float) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= maximum else None


def _is_rank(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 7


PARSER = SourceParser(
    name="proc",
    vendor="",
    gives=(),
    polls=(Poll("processes", Library("proc", (_CALL,)), interval=5.0, deadline=2.0, lists_devices=False),),
    parse=parse,
)
