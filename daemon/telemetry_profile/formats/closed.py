"""Closed formats, and formats that need a library of their own: known, never read, each with the export to make instead."""

from __future__ import annotations

from collections.abc import Callable

from telemetry_profile.facts.csv_tables import first_cells
from telemetry_profile.format_contract import Clue, Refusal


def _is(beginnings: tuple[bytes, ...], endings: tuple[str, ...]) -> Callable[[Clue], bool]:
    """By the first bytes; by the ending of the name where these tell nothing."""
    return lambda clue: clue.head.startswith(beginnings) or clue.name.lower().endswith(endings)


def _is_roofline(clue: Clue) -> bool:
    """rocprofiler-compute's measured peaks of a node: no profile of a run."""
    cells = {cell.lower() for cell in first_cells(clue.text)}
    return {"device", "hbmbw"} <= cells


def _is_perfetto(clue: Clue) -> bool:
    """A stream of packets: field 1 of a protobuf, which no text begins with."""
    return clue.name.lower().endswith((".pftrace", ".perfetto-trace", ".proto")) or (
        clue.head[:1] == b"\x0a" and b"\0" in clue.head[:64]
    )


NSYS = Refusal(
    "nsys-report",
    "Nsight Systems",
    _is((b"QDSTRM",), (".nsys-rep", ".qdrep", ".qdstrm")),
    "this is its closed report; export it with `nsys export --type sqlite FILE` and give the .sqlite file",
)
NCU = Refusal(
    "ncu-report",
    "Nsight Compute",
    _is((b"NVR\0",), (".ncu-rep", ".nsight-cuprof-report")),
    "this is its closed report; export it with `ncu --import FILE --csv --page raw` and give what it prints",
)
PERFETTO = Refusal(
    "perfetto",
    "Perfetto",
    _is_perfetto,
    "this format needs a library of its own; have rocprofv3 write `--output-format csv` or rocpd, and hipprof its json or db",
)
ROOFLINE = Refusal(
    "roofline",
    "rocprofiler-compute",
    _is_roofline,
    "this file has measured peaks of cards, and no run; docs/configuration.md says how the daemon takes peaks",
)
