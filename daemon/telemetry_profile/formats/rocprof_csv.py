"""Reads CSV files of AMD's profilers and of hipprof."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields

from telemetry_parsers.model import Problem
from telemetry_profile.facts.csv_tables import Row, SumRows, Table, columns_of, device_of_kernels, row_problems, tables
from telemetry_profile.facts.device_timeline import Timeline
from telemetry_profile.facts.kernel_kinds import work_of
from telemetry_profile.format_contract import Card, Device, Facts, FileSample, Split, TextFormat

_RUN_ROLES = ("name", "begin", "end")
# Matches kinds of host operations. Their rows may name a device, for example if memory was allocated.
_HOST_KIND = re.compile(r"MEMORY_ALLOC|SCRATCH|PAGE_MIGRATION|\w*_API")
_NO_COPIES_REMARK = "memory copies are in another file, so the idle time is unknown"


def _first_line(file: FileSample) -> str:
    return next((line for line in file.text.splitlines() if line.strip()), "")


def _heading_table(file: FileSample) -> Table:
    return Table(columns_of(_first_line(file)), ())


def _recognises_runs(file: FileSample) -> bool:
    table = _heading_table(file)
    marks = {"starttimestamp", "kernelname", "dispatchid", "dispatchns"}
    return table.has_roles(*_RUN_ROLES) and bool(table.headings() & marks)


def _read_runs(file: FileSample, lines: Iterable[str]) -> Facts:
    timeline = Timeline()
    seen_dispatches: set[int] = set()
    work_kinds: set[str] = set()
    rows_without_times = 0
    for table in tables(lines, (_RUN_ROLES,)):
        for row in table.rows:
            begin, end = _time(row, "begin"), _time(row, "end")
            if begin is None or end is None:
                rows_without_times += 1
            elif _is_new_dispatch(row, seen_dispatches):
                work_kinds.add(_add_row(row, begin, end - begin, timeline))
    devices = tuple(_drop_unmeasured(device, work_kinds) for device in timeline.devices())
    problems = (Problem("rows", f"{rows_without_times} ignored: no times"),) if rows_without_times else ()
    return Facts(
        # Kernels and copies are in separate files.
        "runs-csv" if work_kinds != {"copy"} else "runs-csv-of-copies",
        "rocprof" if "gpuid" in _heading_table(file).headings() else "rocprofv3",
        "boot",
        devices=devices,
        calls=timeline.calls(),
        remarks=(_NO_COPIES_REMARK,) if devices and work_kinds.isdisjoint({"copy"}) else (),
        problems=(*timeline.problems(), *problems),
    )


def _time(row: Row, role: str) -> int | None:
    digits = row.text(role).strip()
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 20 else None


def _is_new_dispatch(row: Row, seen_dispatches: set[int]) -> bool:
    """Return whether this is the first row about a dispatch, or a row without a dispatch."""
    dispatch = row.text("dispatch")
    if not dispatch:
        return True
    key = hash((row.text("guid"), row.text("process"), row.text("device"), dispatch, row.text("begin")))
    if key in seen_dispatches:
        return False
    seen_dispatches.add(key)
    return True


def _add_row(row: Row, begin: int, length: int, timeline: Timeline) -> str:
    """Add a row to the timeline, and return its kind of work or "host"."""
    name, kind = row.text("name"), row.text("kind").upper()
    if "COPY" in kind or row.text("source") or row.text("target"):
        timeline.add(_add_card(_agent_of_copy(row), timeline), "copy", begin, length, name)
        return "copy"
    if "KERNEL" in kind or (row.text("device") and not _HOST_KIND.match(kind)):
        work = work_of(name)
        timeline.add(
            _add_card(row.text("device"), timeline), work, begin, length, name, row.shape("grid"), row.shape("block")
        )
        return work
    if not timeline.add_range(name, begin, length):
        timeline.add_call(name, length)
    return "host"


def _agent_of_copy(row: Row) -> str:
    """Return the copy's target, or its source if the target is the host."""
    ends = (row.text("target"), row.text("source"))
    return ends[1] if row.text("name").upper().endswith(("DEVICE_TO_HOST", "DTOH")) else ends[0]


def _add_card(agent: str, timeline: Timeline) -> str:
    """Add the card of an agent to the timeline, and return the card's key in the timeline."""
    number = agent.strip().removeprefix("Agent ").strip()
    timeline.set_card(number, Card(int(number) if number.isascii() and number.isdigit() and len(number) < 9 else None))
    return number


def _drop_unmeasured(device: Device, work_kinds: set[str]) -> Device:
    """Drop the values that the file cannot show, because it has no copies or no kernels."""
    if "copy" not in work_kinds:
        return device.without("copy_ns", "exposed_copy_ns", "idle_ns")
    if work_kinds & {"compute", "communication"}:
        return device
    other_fields = (field.name for field in fields(Split) if field.name not in ("span_ns", "copy_ns"))
    return device.without(*other_fields)


RUNS = TextFormat("runs-csv", "rocprofv3", _recognises_runs, _read_runs)


_SUM_ROLES = ("name", "calls", "total")
_HEADINGS = re.compile(r'"?Name"?,"?Calls"?,"?TotalDurationNs"?', re.IGNORECASE)
# Matches functions of the runtimes, but not kernels of collectives, whose names begin in the same way.
_HOST_FUNCTION = re.compile(
    r"(__)?hip[A-Z]\w*\Z|hsa_\w+\Z|(roctx|rocdecode|rocjpeg|(nccl|rccl|mscclpp)(?!(Dev)?Kernel)[A-Z]|MPI_)\w*\Z"
)
# Matches the domains of host calls in rocprofv3's domain_stats.
_HOST_DOMAIN = re.compile(
    r"(HIP|HSA|MARKER|RCCL|ROCDECODE|ROCJPEG|OMPT)(_[A-Z0-9]+)*\Z|(MEMORY_ALLOCATION|SCRATCH_MEMORY|PAGE_MIGRATION)\w*\Z"
)
# Matches files about host calls. A marked range can have any name, so only the name of the file shows what it is.
_HOST_FILE = re.compile(
    r"(marker|hip|hsa|rccl|rocdecode|rocjpeg|mpi|memory_allocation|scratch_memory)(_api)?_stats", re.IGNORECASE
)
# rocprof also lists the total, and lists barriers and markers among the copies.
_SKIPPED = frozenset({"Total", "Unknown command type"})


def _tool_of_sums(file: FileSample) -> str:
    if "StdDev" in _first_line(file):
        return "rocprofv3"
    return "hipprof" if re.search(r'^"?[^\n]*","\d+","\d+"', file.text, re.MULTILINE) else "rocprof"


def _read_sums(file: FileSample, lines: Iterable[str]) -> Facts:
    sums = SumRows()
    is_host_file = _HOST_FILE.search(file.name) is not None
    for table in tables(lines, (_SUM_ROLES,)):
        for row in table.rows:
            name = row.text("name")
            is_host = is_host_file or name in _SKIPPED or bool(_HOST_FUNCTION.match(name) or _HOST_DOMAIN.match(name))
            sums.add(row, work_of(name), is_host=is_host)
    calls = tuple(call for call in sums.calls if call.name not in _SKIPPED)
    devices, problems = device_of_kernels(sums.kernels), row_problems(sums.invalid_rows)
    return Facts("sums-csv", _tool_of_sums(file), devices=devices, calls=calls, problems=problems)


SUMS = TextFormat(
    "sums-csv", "rocprof, rocprofv3, hipprof", lambda file: bool(_HEADINGS.match(_first_line(file).strip())), _read_sums
)


def _recognises_top_kernels(file: FileSample) -> bool:
    headings = _heading_table(file).headings()
    return "kernelname" in headings and "count" in headings and any(heading.startswith("sum(") for heading in headings)


def _read_top_kernels(_file: FileSample, lines: Iterable[str]) -> Facts:
    sums = SumRows()
    for table in tables(lines, (_SUM_ROLES,)):
        for row in table.rows:
            sums.add(row, work_of(row.text("name")), is_host=False)
    return Facts("rocprof-compute", "rocprofiler-compute", devices=device_of_kernels(sums.kernels))


TOP_KERNELS = TextFormat("rocprof-compute", "rocprofiler-compute", _recognises_top_kernels, _read_top_kernels)
