"""Recognises formats that only the vendor's software can read."""

from __future__ import annotations

from collections.abc import Callable

from telemetry_profile.facts.csv_tables import first_cells
from telemetry_profile.format_contract import Clue, Refusal


def _file_predicate(beginnings: tuple[bytes, ...], endings: tuple[str, ...]) -> Callable[[Clue], bool]:
    """Return a function that matches files by their first bytes or the ending of their names."""
    return lambda clue: clue.head.startswith(beginnings) or clue.name.lower().endswith(endings)


def _is_roofline(clue: Clue) -> bool:
    """Return whether this is rocprofiler-compute's file of measured peak rates."""
    return {"device", "hbmbw"} <= {cell.lower() for cell in first_cells(clue.text)}


def _is_perfetto(clue: Clue) -> bool:
    return clue.name.lower().endswith((".pftrace", ".perfetto-trace", ".proto")) or (
        clue.head[:1] == b"\x0a" and b"\0" in clue.head[:64]  # field 1 of a protobuf message
    )


NSYS = Refusal(
    "nsys-report",
    "Nsight Systems",
    _file_predicate((b"QDSTRM",), (".nsys-rep", ".qdrep", ".qdstrm")),
    "the report format is closed; run `nsys export --type sqlite FILE` and pass the .sqlite file",
)
NCU = Refusal(
    "ncu-report",
    "Nsight Compute",
    _file_predicate((b"NVR\0",), (".ncu-rep", ".nsight-cuprof-report")),
    "the report format is closed; run `ncu --import FILE --csv --page raw` and pass its output as a file",
)
PERFETTO = Refusal(
    "perfetto",
    "Perfetto",
    _is_perfetto,
    "this format needs its own library; let rocprofv3 write csv or rocpd (`--output-format`), and hipprof json or db",
)
ROOFLINE = Refusal(
    "roofline",
    "rocprofiler-compute",
    _is_roofline,
    "the file contains measured peaks of cards, not a profile; docs/configuration.md describes how to set peaks",
)
