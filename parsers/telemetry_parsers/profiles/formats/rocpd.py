"""rocprofv3's database (rocpd, the default since ROCm 7): its views, which have the same names in every version.

`rocpd_info_process` holds the environment and command line of the job, `rocpd_info_node` the host: none of it is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from telemetry_parsers.profiles.columns import integer, named, records, shape
from telemetry_parsers.profiles.contract import DatabaseFormat, Schema, Tables
from telemetry_parsers.profiles.facts import Card, Facts
from telemetry_parsers.profiles.steps import is_data_wait, is_step
from telemetry_parsers.profiles.timeline import Timeline
from telemetry_parsers.profiles.words import work_of

_TOOL = "rocprofv3"
_AGENT_COLUMNS = ("guid", "type", "absolute_index", "type_index", "name", "product_name", "model_name", "extdata")
_KERNEL_COLUMNS = (
    "guid", "agent_abs_index", "name", "start", "end",
    "grid_x", "grid_y", "grid_z", "workgroup_x", "workgroup_y", "workgroup_z",
)  # fmt: skip
_COPY_COLUMNS = (
    "guid", "name", "start", "end", "dst_agent_abs_index", "dst_agent_type", "src_agent_abs_index", "src_agent_type",
)  # fmt: skip
_MARKERS = "MARKER"


def _recognises(schema: Schema) -> bool:
    return "kernels" in schema and bool(named(schema, "rocpd_"))


def _read(tables: Tables) -> Facts:
    timeline = Timeline()
    _cards(tables, timeline)
    for row in records(tables, "kernels", _KERNEL_COLUMNS):
        name = _text(row, "name")
        grid = shape(row.get("grid_x"), row.get("grid_y"), row.get("grid_z"))
        block = shape(row.get("workgroup_x"), row.get("workgroup_y"), row.get("workgroup_z"))
        timeline.add(
            _key(row, "agent_abs_index"), work_of(name), integer(row.get("start")), _length(row), name, grid, block
        )
    for row in records(tables, "memory_copies", _COPY_COLUMNS):
        side = "dst" if row.get("dst_agent_type") == "GPU" else "src"
        timeline.add(
            _key(row, f"{side}_agent_abs_index"), "copy", integer(row.get("start")), _length(row), _text(row, "name")
        )
    for row in records(tables, "regions", ("category", "name", "start", "end")):
        _region(row, timeline)
    return Facts(
        "rocpd", _TOOL, "boot", devices=timeline.devices(), calls=timeline.calls(), problems=timeline.problems()
    )


def _cards(tables: Tables, timeline: Timeline) -> None:
    for row in records(tables, "rocpd_info_agent", _AGENT_COLUMNS):
        if row.get("type") == "GPU":
            model = _text(row, "product_name") or _text(row, "model_name") or _text(row, "name")
            timeline.card(
                _key(row, "absolute_index"),
                Card(integer(row.get("type_index")), model, "", _bus_id(_text(row, "extdata"))),
            )


def _bus_id(extdata: str) -> str:
    """The PCI address, which the kernel's topology has as one number: bus, device and function."""
    try:
        told = json.loads(extdata)
    except ValueError:
        return ""
    location = told.get("location_id") if isinstance(told, dict) else None
    if not isinstance(location, int) or not 0 < location <= 0xFFFF:
        return ""
    domain = told.get("domain")
    domain = domain if isinstance(domain, int) and 0 <= domain <= 0xFFFF else 0
    return f"{domain:04x}:{location >> 8:02x}:{location >> 3 & 0x1F:02x}.{location & 7}"


def _region(row: Mapping[str, Any], timeline: Timeline) -> None:
    name = _text(row, "name")
    if _MARKERS in _text(row, "category").upper() and is_step(name):
        timeline.step(name, integer(row.get("start")), _length(row))
    elif _MARKERS in _text(row, "category").upper() and is_data_wait(name):
        timeline.data_wait(integer(row.get("start")), _length(row))
    else:
        timeline.call(name, _length(row))


def _key(row: Mapping[str, Any], column: str) -> tuple[object, int | None]:
    """One card: agents are counted anew in each process that was written into the file."""
    return row.get("guid"), integer(row.get(column))


def _length(row: Mapping[str, Any]) -> int | None:
    start, end = integer(row.get("start")), integer(row.get("end"))
    return None if start is None or end is None else end - start


def _text(row: Mapping[str, Any], column: str) -> str:
    value = row.get(column)
    return value if isinstance(value, str) else ""


FORMAT = DatabaseFormat("rocpd", _TOOL, "views kernels and rocpd_…", _recognises, _read)
