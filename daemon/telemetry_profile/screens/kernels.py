"""The kernels that took most of the time, as lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from telemetry_exporters import human
from telemetry_exporters.terminal.style import ABSENT
from telemetry_exporters.text import clean, cut, pad_left, pad_right
from telemetry_profile.facts.file_facts import Kernel
from telemetry_profile.verdict.combine import Member

_WIDE = 120  # from here on there is room for the launch, too
_LEAST_NAME = 20


@dataclass(slots=True)
class Sum:
    """The runs of one kernel on all cards."""

    longest: Kernel
    calls: int = 0
    total_ns: int = 0


def kernel_sums(members: Sequence[Member]) -> list[Sum]:
    """The kernels of all cards together, the largest total first."""
    sums: dict[tuple[str, str], Sum] = {}
    for member in members:
        for kernel in member.device.kernels:
            found = sums.setdefault((kernel.work, kernel.name), Sum(kernel))
            found.calls += kernel.calls
            found.total_ns += kernel.total_ns
            if (kernel.longest_ns or 0) > (found.longest.longest_ns or 0):
                found.longest = kernel
    return sorted(sums.values(), key=lambda one: (-one.total_ns, one.longest.name))


def kernel_table(members: Sequence[Member], most: int, width: int) -> list[str]:
    """A heading and at most so many kernels; nothing where none is told."""
    sums = kernel_sums(members)
    if not sums:
        return []
    whole = sum(one.total_ns for one in sums)
    rows = [_cells(one, whole, width) for one in sums[:most]]
    heading = [
        "TOP KERNELS",
        "CALLS",
        "TOTAL",
        "MEAN",
        "SHARE",
        *(("GRID", "BLOCK", "OCC EST") if width >= _WIDE else ()),
    ]
    widths = [max(len(row[place]) for row in [heading, *rows]) for place in range(1, len(heading))]
    name = max(_LEAST_NAME, width - sum(widths) - 2 * len(widths))
    return [
        pad_right(cut(row[0], name), name)
        + "".join("  " + pad_left(cell, each) for cell, each in zip(row[1:], widths, strict=True))
        for row in [heading, *rows]
    ]


def _cells(one: Sum, whole: int, width: int) -> list[str]:
    share = f"{one.total_ns / whole:.1%}" if whole else ABSENT
    cells = [
        clean(one.longest.name),  # before it is measured: what takes its place may be wider
        f"{one.calls:,}",
        human.span(one.total_ns),
        human.span(round(one.total_ns / max(1, one.calls))),
        share,
    ]
    if width >= _WIDE:
        occupancy = one.longest.occupancy_ratio
        cells += [
            one.longest.grid or ABSENT,
            one.longest.block or ABSENT,
            ABSENT if occupancy is None else f"{occupancy:.0%}",
        ]
    return cells
