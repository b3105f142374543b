"""amd-smi's overview, which it prints without a sub-command: two rows for each card in a box, and a box of processes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from telemetry_parsers import units
from telemetry_parsers.boxed import columns as look
from telemetry_parsers.boxed.columns import QUIET, Column, column
from telemetry_parsers.boxed.table import Box, read_cards
from telemetry_parsers.model import Absent, Process
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import fact, identity, metric
from telemetry_parsers.text.complaints import CUT_PROCESSES, not_understood
from telemetry_parsers.text.framed import is_rule
from telemetry_parsers.text.lines import Line
from telemetry_parsers.vendors.amd.amd_smi.saved.tables import cells_of
from telemetry_parsers.vendors.amd.amd_smi.words import known

_NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,3})?"
_COLUMNS: Mapping[str, Column] = {
    "bdf": column(look.BUS, identity("bus_id")),
    # The number of its chip stands there for a chip without a name.
    "gpu-name": column(rf"(?:0x[0-9A-Fa-f]{{1,8}}(?!\S)|{look.NAME})", identity("model")),
    "mem-uti": column(look.PERCENT, metric("memory_activity_ratio")),
    "temp": column(look.CELSIUS, metric("temperature_celsius", "core")),
    "uec": column(look.COUNT, metric("ecc_uncorrected_total", "all")),
    # `611/750 W`, `N/A/0 W`, and `121 W` since 7.14. A limit of 0 W is none.
    "power-usage": column(
        rf"(?:({_NUMBER}|N/A)(?:/({_NUMBER}|N/A))? ?W|N/A)",
        metric("power_watts", unit="W"),
        metric("power_cap_watts", unit="W", zero=Absent.NOT_SUPPORTED),
    ),
    "gpu": column(look.ID, identity("index")),
    "hip-id": QUIET,
    "oam-id": column(look.COUNT, fact("oam_id")),
    "partition-mode": column(
        r"(?:N/A|([A-Z0-9]{1,8})/([A-Z0-9]{1,8}))", fact("compute_partition"), fact("memory_partition")
    ),
    "gfx-uti": column(look.PERCENT, metric("utilization_ratio")),
    # `100.0 %` and `38.82 %` are too wide for it and lose the sign, never a digit: the tool rounds to two decimals.
    "fan": column(rf"({_NUMBER}(?: ?%)?|N/A)", metric("fan_ratio", unit="%")),
    "mem-usage": column(look.BYTES_PAIR, metric("memory_used_bytes"), metric("memory_total_bytes")),
}
_BANNER = re.compile(r"\|[ \t]{1,4}AMD-SMI[ \t]")
_BOX = Box(
    columns=_COLUMNS,
    opening=frozenset({"bdf", "gpu-name", "mem-uti"}),
    banner=_BANNER,
    versions=(
        ("tool_version", re.compile(r"AMD-SMI[ \t]{1,30}([A-Za-z]{0,20}[0-9]\S{0,60})(?=\s)")),
        ("rocm_version", re.compile(r"ROCm [Vv]ersion:[ \t]{1,30}([0-9]\S{0,60})(?=\s)")),
        # One of eight letters may be cut off; later versions of the tool end it with dots then.
        ("driver", re.compile(r"amdgpu [Vv]ersion:[ \t]{1,30}(?!\S{8}\s)([0-9]\S{0,60})(?<!\.\.\.)(?=\s)")),
    ),
    parting="|",
)
_PROCESS_HEADING = re.compile(r"[ \t|]{0,8}GPU[ \t]{1,20}PID[ \t]{1,20}Process Name[ \t]{1,40}(\S[^|]{0,100})")
_NONE = "no running processes"
_MOST_WORDS = 120


def is_box(lines: Sequence[Line]) -> bool:
    """Whether these lines hold the overview with its headings."""
    return any(line.ended and line.text.strip("| \t").startswith("BDF ") and "GPU-Name" in line.text for line in lines)


def read_box(lines: Sequence[Line], draft: Draft) -> None:
    """Read each card of the overview, and the processes on it, into the draft."""
    below = read_cards(lines, _BOX, draft)
    if below:
        _read_processes(below, draft)
    elif not draft.is_cut:
        draft.complain(lines[-1].where, "the box of processes is missing")


def _read_processes(lines: Sequence[Line], draft: Draft) -> None:
    """The processes, counted where their box is closed and each row was understood."""
    headings = ((at + 1, match) for at, line in enumerate(lines) if (match := _PROCESS_HEADING.match(line.text)))
    start, heading = next(headings, (len(lines), None))
    names = heading[1].replace("CU %", "CU%").split() if heading else []
    end = next((at for at in reversed(range(start, len(lines))) if _is_last_rule(lines[at])), len(lines))
    is_closed = end < len(lines)
    gap = None if is_closed else Absent.NOT_REPORTED
    counts: Counter[int] = Counter()
    for at, line in enumerate(lines[start:], start):
        process = _process(line, names, draft)
        if process is not None:
            draft.processes.append(process)
            counts[process.device] += 1
        elif line.text.strip() and not is_rule(line.text) and _NONE not in line.text.lower():
            draft.complain(line.where, not_understood(line.text))
            gap = gap or (Absent.NOT_UNDERSTOOD if at < end else None)
    if not is_closed:
        draft.complain(lines[-1].where, CUT_PROCESSES)
    for position in draft.positions().values():
        draft.give(position, metric("processes"), gap or float(counts[position]))


def _is_last_rule(line: Line) -> bool:
    """Whether a line is the rule between two corners with which a box ends."""
    text = line.text.strip()
    return line.ended and is_rule(text) and text.startswith("+") and text.endswith("+")


def _process(line: Line, names: Sequence[str], draft: Draft) -> Process | None:
    """A row such as `0  213952  my app  7.9 MB  19.6 GB  20.1 GB  N/A`; the name may hold blanks."""
    text = line.text.strip("| \t")
    # A row of a card has a sign between its cells.
    words = text.split(maxsplit=_MOST_WORDS) if line.ended and "|" not in text else []
    index, pid = (units.whole(word) for word in words[:2]) if len(words) > 2 else (None, None)
    position = None if index is None else draft.positions().get(index)
    rows = ((start, cells_of(words[start:])) for start in range(3, len(words)))
    start, cells = next(((start, cells) for start, cells in rows if len(cells) == len(names)), (0, []))
    if position is None or pid is None or not cells:
        return None
    row = dict(zip(names, cells, strict=True))
    used = units.quantity(row.get("VRAM_MEM", row.get("MEM_USAGE", "")), units.BYTES, "B")
    return Process(position, pid, known(" ".join(words[2:start])) or "", None if isinstance(used, Absent) else used)
