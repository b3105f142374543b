"""Recognises files that cannot be read, and names the export to pass instead."""

from __future__ import annotations

from collections.abc import Callable

from telemetry_profile.facts.csv_tables import first_cells
from telemetry_profile.format_contract import FileSample, UnsupportedFormat


def _file_predicate(beginnings: tuple[bytes, ...], endings: tuple[str, ...]) -> Callable[[FileSample], bool]:
    """Return a predicate that accepts files with one of these first bytes, or one of these file name endings."""
    return lambda file: file.head.startswith(beginnings) or file.name.lower().endswith(endings)


def _is_roofline(file: FileSample) -> bool:
    """Return whether this is rocprofiler-compute's file of measured peak rates."""
    return {"device", "hbmbw"} <= {cell.lower() for cell in first_cells(file.text)}


def _is_perfetto(file: FileSample) -> bool:
    return file.name.lower().endswith((".pftrace", ".perfetto-trace", ".proto")) or (
        file.head[:1] == b"\x0a" and b"\0" in file.head[:64]  # field 1 of a protobuf message
    )


NSYS = UnsupportedFormat(
    "nsys-report",
    "Nsight Systems",
    _file_predicate((b"QDSTRM",), (".nsys-rep", ".qdrep", ".qdstrm")),
    "the report format is closed; run `nsys export --type sqlite FILE` and pass the .sqlite file",
)
NCU = UnsupportedFormat(
    "ncu-report",
    "Nsight Compute",
    _file_predicate((b"NVR\0",), (".ncu-rep", ".nsight-cuprof-report")),
    "the report format is closed; run `ncu --import FILE --csv --page raw` and pass its output as a file",
)
PERFETTO = UnsupportedFormat(
    "perfetto",
    "Perfetto",
    _is_perfetto,
    "this format needs its own library; let rocprofv3 write csv or rocpd (`--output-format`), and hipprof json or db",
)
ROOFLINE = UnsupportedFormat(
    "roofline",
    "rocprofiler-compute",
    _is_roofline,
    "the file contains measured peaks of cards, not a profile; docs/configuration.md describes how to set peaks",
)
