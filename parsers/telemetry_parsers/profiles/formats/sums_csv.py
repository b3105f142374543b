"""The sums in csv that hipprof, rocprof and rocprofv3 write alike: name, calls and total nanoseconds.

Which side they are of, device or host, only the names say: files are renamed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from telemetry_parsers.model import Problem
from telemetry_parsers.profiles.contract import Clue, TextFormat
from telemetry_parsers.profiles.csv_rows import Row, kernel, tables
from telemetry_parsers.profiles.facts import Call, Device, Facts, Kernel
from telemetry_parsers.profiles.words import work_of

_ROLES = ("name", "calls", "total")
_HEADING = re.compile(r'"?Name"?,"?Calls"?,"?TotalDurationNs"?', re.IGNORECASE)
# Functions of the runtimes, and the domains of rocprofv3's domain_stats.
_HOST = re.compile(r"(__)?hip[A-Z]\w*\Z|hsa_\w+\Z|(roctx|rocdecode|rocjpeg|nccl[A-Z]|rccl[A-Z]|MPI_)\w*\Z")
_DOMAIN = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*\Z")
_UNTOLD = "Unknown command type"  # rocprof's word for barriers and markers, in its copies
_TOTAL = "Total"


def _heading(clue: Clue) -> str:
    return next((line for line in clue.text.splitlines() if line.strip()), "")


def _recognises(clue: Clue) -> bool:
    return bool(_HEADING.match(_heading(clue).strip()))


def _tool(clue: Clue) -> str:
    heading = _heading(clue)
    if "StdDev" in heading:
        return "rocprofv3"
    return "hipprof" if re.search(r'^"?[^\n]*","\d+","\d+"', clue.text, re.MULTILINE) else "rocprof"


def _read(clue: Clue, lines: Iterable[str]) -> Facts:
    kernels: list[Kernel] = []
    calls: list[Call] = []
    bad = 0
    for table in tables(lines, (_ROLES,)):
        for row in table.rows:
            found = _judged(row)
            if found is None:
                bad += 1
            elif isinstance(found, Kernel):
                kernels.append(found)
            elif found.name != _TOTAL:
                calls.append(found)
    devices = (Device(kernels=tuple(sorted(kernels, key=lambda one: -one.total_ns))),) if kernels else ()
    problems = (Problem("rows", f"{bad} have no calls or time, and are left out"),) if bad else ()
    return Facts("sums-csv", _tool(clue), devices=devices, calls=tuple(calls), problems=problems)


def _judged(row: Row) -> Kernel | Call | None:
    """A kernel, or what the host did; None for what is neither."""
    name = row.text("name")
    found = kernel(row, work_of(name))
    if found is None:
        return None
    if name in (_TOTAL, _UNTOLD) or _HOST.match(name) or _DOMAIN.match(name):
        return Call(name if name != _UNTOLD else _TOTAL, found.calls, found.total_ns)
    return found


FORMAT = TextFormat(
    "sums-csv", "rocprof, rocprofv3, hipprof", "headings Name, Calls, TotalDurationNs", _recognises, _read
)
