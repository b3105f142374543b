"""The sums in csv that hipprof, rocprof and rocprofv3 write alike: name, calls and total nanoseconds.

Which side they are of, device or host, only the names say: files are renamed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from telemetry_profile.contract import Clue, TextFormat
from telemetry_profile.facts.csv_tables import Row, kernel, left_out, tables
from telemetry_profile.facts.file_facts import Call, Device, Facts, Kernel
from telemetry_profile.facts.kernel_kinds import work_of

_ROLES = ("name", "calls", "total")
_HEADING = re.compile(r'"?Name"?,"?Calls"?,"?TotalDurationNs"?', re.IGNORECASE)
# Functions of the runtimes; kernels of the collective libraries begin alike.
_HOST = re.compile(
    r"(__)?hip[A-Z]\w*\Z|hsa_\w+\Z|(roctx|rocdecode|rocjpeg|(nccl|rccl|mscclpp)(?!(Dev)?Kernel)[A-Z]|MPI_)\w*\Z"
)
# The domains of rocprofv3's domain_stats that are the host's; the others are sums of what the device did.
_HOST_DOMAIN = re.compile(
    r"(HIP|HSA|MARKER|RCCL|ROCDECODE|ROCJPEG|OMPT)(_[A-Z0-9]+)*\Z|(MEMORY_ALLOCATION|SCRATCH_MEMORY|PAGE_MIGRATION)\w*\Z"
)
# Files are renamed; one that is not says whose its rows are, which ranges that a user marked do not say.
_HOST_FILE = re.compile(
    r"(marker|hip|hsa|rccl|rocdecode|rocjpeg|mpi|memory_allocation|scratch_memory)(_api)?_stats", re.IGNORECASE
)
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
    is_of_host = _HOST_FILE.search(clue.name) is not None
    for table in tables(lines, (_ROLES,)):
        for row in table.rows:
            found = _judged(row, is_of_host=is_of_host)
            if found is None:
                bad += 1
            elif isinstance(found, Kernel):
                kernels.append(found)
            elif found.name != _TOTAL:
                calls.append(found)
    devices = (Device(kernels=tuple(sorted(kernels, key=lambda one: -one.total_ns))),) if kernels else ()
    return Facts("sums-csv", _tool(clue), devices=devices, calls=tuple(calls), problems=left_out(bad))


def _judged(row: Row, *, is_of_host: bool) -> Kernel | Call | None:
    """A kernel, or what the host did; None for what is neither."""
    name = row.text("name")
    found = kernel(row, work_of(name))
    if found is None:
        return None
    if is_of_host or name in (_TOTAL, _UNTOLD) or _HOST.match(name) or _HOST_DOMAIN.match(name):
        return Call(found.name if name != _UNTOLD else _TOTAL, found.calls, found.total_ns)
    return found


FORMAT = TextFormat("sums-csv", "rocprof, rocprofv3, hipprof", _recognises, _read)
