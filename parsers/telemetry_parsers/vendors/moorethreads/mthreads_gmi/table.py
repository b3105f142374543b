"""The default table of mthreads-gmi: both layouts, on hosts and in guests, with and without its process table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from telemetry_parsers.boxed import columns as look
from telemetry_parsers.boxed.columns import Column, column
from telemetry_parsers.boxed.table import Box, read_cards
from telemetry_parsers.model import Absent
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import fact, identity, metric, switch
from telemetry_parsers.text.lines import Line
from telemetry_parsers.vendors.moorethreads.mthreads_gmi.processes import read_processes
from telemetry_parsers.vendors.moorethreads.mthreads_gmi.words import ECC

# `1339MiB(16384MiB)`, `16x(16x)`; what follows the bracket is lost where the text ends there.
_PAIR = r"(?:N/A|-|([^\s()]{1,40})\((?:([^\s()]{1,40})\))?)"
# The last value of a cell may be blank.
_COLUMNS: Mapping[str, Column] = {
    "id": column(look.ID, identity("index")),
    "name": column(f"{look.NAME}?", identity("model")),
    "pcie": column(look.NAME, identity("bus_id")),
    "%gpu": column(look.WORD, metric("utilization_ratio")),
    "mem": column(_PAIR, metric("memory_used_bytes"), metric("memory_total_bytes")),
    "device type": column(look.NAME, fact("device_type")),
    "perf": column(r"(P[0-9]{1,2}|N/A|-)?", metric("performance_state")),
    "pcie lane width": column(_PAIR, metric("pcie_link_width"), metric("pcie_link_width_max")),
    "temp": column(look.WORD, metric("temperature_celsius", "core")),
    "mpc capable": column(f"{look.WORD}?", fact("mpc_capable")),
    "ecc mode": column(look.NAME, (switch("ecc_enabled", ECC), fact("ecc_mode"))),
}
BOX = Box(
    columns=_COLUMNS,
    opening=frozenset({"id", "name"}),
    # With its number: the tool puts its name before its error texts too.
    banner=re.compile(r"\bmthreads-gmi:[ \t]{0,8}[0-9]"),
    versions=(
        ("tool_version", re.compile(r"\bmthreads-gmi:[ \t]{0,8}(\S{1,64})(?=\s)")),
        ("driver", re.compile(r"Driver Version:[ \t]{0,8}(\S{1,64})(?=\s)")),
    ),
    expected=("Mon ", "Tue ", "Wed ", "Thu ", "Fri ", "Sat ", "Sun "),
    parting="+",
)
_READINGS = tuple(
    target for each in _COLUMNS.values() for group in each.gives for target in group if target.kind == "metric"
)


def read_table(lines: Sequence[Line], box: Box, draft: Draft) -> None:
    """Put the cards and their processes into the draft; what a layout has no column for is not reported."""
    below = read_cards(lines, box, draft)
    for device in range(draft.size()):
        for target in _READINGS:
            if not draft.is_given(device, target):
                draft.give(device, target, Absent.NOT_REPORTED)
    read_processes(below, draft)
