"""rocprofiler-compute's list of kernels (pmc_kernel_top.csv)."""

from __future__ import annotations

from collections.abc import Iterable

from telemetry_profile.contract import Clue, TextFormat
from telemetry_profile.facts.csv_tables import Table, columns_of, kernel, tables
from telemetry_profile.facts.file_facts import Device, Facts
from telemetry_profile.facts.kernel_kinds import work_of

_ROLES = ("name", "calls", "total")


def _recognises(clue: Clue) -> bool:
    first = next((line for line in clue.text.splitlines() if line.strip()), "")
    words = Table(columns_of(first), ()).headings()
    return "kernelname" in words and "count" in words and any(word.startswith("sum(") for word in words)


def _read(clue: Clue, lines: Iterable[str]) -> Facts:
    del clue
    kernels = [
        found
        for table in tables(lines, (_ROLES,))
        for row in table.rows
        if (found := kernel(row, work_of(row.text("name"))))
    ]
    devices = (Device(kernels=tuple(sorted(kernels, key=lambda one: -one.total_ns))),) if kernels else ()
    return Facts("rocprof-compute", "rocprofiler-compute", devices=devices)


FORMAT = TextFormat("rocprof-compute", "rocprofiler-compute", _recognises, _read)
