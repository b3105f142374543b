"""amd-smi's CSV: a row for each device. The headings are keys without their sections."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence

from telemetry_parsers import units
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.text.answers import SHORTENED, not_a_row
from telemetry_parsers.text.lines import Line
from telemetry_parsers.vendors.amd.amd_smi.entries import Block, Entry, Path, field_path, normalize_key
from telemetry_parsers.vendors.amd.amd_smi.keys import (
    FIELDS,
    IGNORED_NAMES,
    PROCESS_PATHS,
    VIOLATION_SUFFIX,
    is_ignored,
)
from telemetry_parsers.vendors.amd.amd_smi.saved_sections import list_items

_IGNORED_COLUMNS = frozenset({"gpu", "timestamp"})
# Maps each ambiguous column to (other columns, path if any of the other columns is present, path if none is).
_AMBIGUOUS_COLUMNS: Mapping[str, tuple[frozenset[str], Path, Path]] = {
    "mem": (frozenset({"edge", "hotspot", "gfx_activity", "total_vram"}), ("temperature", "mem"), ("mem",)),
    "max_power": (frozenset({"min_power", "socket_power"}), ("limit", "max_power"), ("max_power",)),
    "socket_power": (frozenset({"max_power", "min_power"}), ("limit", "socket_power"), ("power", "socket_power")),
}
# The paths of columns that other formats name differently, and of columns without a reading.
_PATHS_BY_COLUMN: Mapping[str, Path] = {
    "gpu_bdf": ("bdf",),
    "gpu_uuid": ("uuid",),
    "xcp": ("partition_id",),
    "process_info": ("process_info",),
    "target_graphics_version": ("asic", "target_graphics_version"),
    "asic_serial": ("asic", "asic_serial"),
    "device_id": ("asic", "device_id"),
    "product_serial": ("board", "product_serial"),
    "part_number": ("ifwi", "part_number"),
    "accelerator_partition": ("partition", "accelerator_partition"),
    "memory_partition": ("partition", "memory_partition"),
    "link_status": ("link_status",),
}
_PAGE_SECTIONS = frozenset({"retired", "pending", "un_res"})
_PAGE_ADDRESS = "'page_address':"
_CLOCK_COLUMN = re.compile(r"([a-z]{2,8}(?:_[0-9]{1,3})?)_((?:min_|max_)?clk|clk_locked|deep_sleep)\Z")
_PARTITION_COLUMN = re.compile(r"([a-z0-9_]{2,60})_(xcp_[0-9]{1,3})\Z")
# Known CSV columns without a metric.
_COLUMN_WITHOUT_METRIC = re.compile(
    r"[a-z0-9_]{1,60}_(?:accumulated|violation_activity)|accumulation_counter|point_[0-9]_(?:frequency|voltage)|vddboard|uclk_aid"
    r"|socclks_mid|link_metrics_(?:bit_rate|max_bandwidth|link_type)|pcie_levels_[0-9]{1,2}|os_kernel_version|eeprom_version"
    r"|bad_page_threshold(?:_exceeded)?|[a-z_]{4,12}_schema|ecc_block_state_[a-z0-9_]{2,12}|memory_partition_caps"
)
_BLOCK_COUNT_COLUMN = re.compile(r"([a-z0-9_]{2,12})_((?:un)?correctable_count|deferred_count)\Z")
_ELLIPSIS = "..."


def read_csv(lines: Sequence[Line], draft: Draft) -> list[Block]:
    """Return a block for each row of a device or process."""
    parser = _CsvParser(draft)
    for line in lines:
        parser.read_line(line)
    return parser.blocks


def csv_headings(line: Line) -> list[str]:
    """Return the headings in a CSV heading line, or [] for any other line."""
    if not line.ended or "," not in line.text:
        return []
    names = [normalize_key(name) for name in line.text.split(",")]
    return names if "gpu" in names[:2] else []


class _CsvParser:
    def __init__(self, draft: Draft) -> None:
        self.blocks: list[Block] = []
        self._draft = draft
        self._headings: list[str] = []
        self._paths: Mapping[str, Path] = {}
        self._group = 0

    def read_line(self, line: Line) -> None:
        text = line.text.strip()
        names = csv_headings(line)
        if names:
            self._set_headings(names)
        elif text == _ELLIPSIS:
            self._draft.add_problem(line.where, SHORTENED)
        elif text and not (self._headings and self._read_row(line)):
            self._draft.add_problem(line.where, not_a_row(text))

    def _set_headings(self, names: list[str]) -> None:
        if names == self._headings:
            return  # `--watch` repeats the headings
        if "" in names:
            self._draft.add_problem("heading", "a column has no name, so the rows below it are not read")
        self._headings, self._paths = names, _paths_by_heading(names)
        self._draft.add_unknown(*(name for name in names if name not in _IGNORED_COLUMNS and not self._paths.get(name)))

    def _read_row(self, line: Line) -> bool:
        try:
            cells = next(csv.reader([line.text]), [])
        except csv.Error:  # not valid CSV; the caller reports the line
            return False
        row = dict(zip(self._headings, cells, strict=False))
        index = units.integer(row.get("gpu", "").removeprefix("GPU"))
        if not line.ended or len(cells) != len(self._headings) or index is None or "" in self._headings:
            return False
        self._group += 1
        block = Block("gpu", index, f"GPU {index}", open_path=("process_info",))
        for name, cell in row.items():
            path = self._paths.get(name)
            if path:
                where = f"{line.where} {name}"
                block.entries += [Entry(*item, self._group, where) for item in _cell_items(path, cell)]
        self.blocks.append(block)
        return True


def _cell_items(path: Path, cell: str) -> list[tuple[Path, str]]:
    """Return (path, text) pairs for a cell: one for each item if the cell is a list."""
    if path == _PATHS_BY_COLUMN["process_info"] and units.placeholder(cell) is not None:
        return []  # processes have rows of their own
    if path[0] in _PAGE_SECTIONS and _PAGE_ADDRESS in cell:
        return [((*path, "page_address"), "")] * cell.count(_PAGE_ADDRESS)
    return [(path, item) for item in list_items(cell)]


def _paths_by_heading(names: Sequence[str]) -> dict[str, Path]:
    if "pid" in names:
        return {name: PROCESS_PATHS.get(name) or _PATHS_BY_COLUMN.get(name, ()) for name in names if name != "gpu"}
    return {name: _path_of_column(name, names) for name in names if name not in _IGNORED_COLUMNS}


def _path_of_column(name: str, names: Sequence[str]) -> Path:
    """Return the path of a column's values, or () if the path is unknown or ambiguous."""
    if name == "perf_level" or name in _PAGE_SECTIONS:
        return (name,)
    if name in _PATHS_BY_COLUMN:
        return _PATHS_BY_COLUMN[name]
    if name in _AMBIGUOUS_COLUMNS:
        neighbours, path_with_neighbours, other_path = _AMBIGUOUS_COLUMNS[name]
        return path_with_neighbours if neighbours.intersection(names) else other_path
    if name.startswith("ppt1_"):
        return ("limit", "ppt1")
    paths: set[Path] = {path for path in FIELDS if name in (path[-1], "_".join(path[-2:]))}
    if (name,) in paths or is_ignored((name,)):
        return (name,)
    if name in IGNORED_NAMES or (not paths and _COLUMN_WITHOUT_METRIC.fullmatch(name)):
        return ("csv", name)
    return _path_with_label(name) or (paths.pop() if len(paths) == 1 else ())


def _path_with_label(name: str) -> Path:
    """Return the path for a name with a label, such as `gfx_0_clk`. Return () for any other name."""
    partition_match = _PARTITION_COLUMN.match(name)
    if partition_match is not None:
        path = _path_without_partition(partition_match[1])
        return (*path, partition_match[2]) if path else ()
    if name.endswith(VIOLATION_SUFFIX):
        return ("throttle", name)
    clock, count = _CLOCK_COLUMN.match(name), _BLOCK_COUNT_COLUMN.match(name)
    section = field_path(("clock", clock[1])) if clock else ()
    if clock and (is_ignored(section) or any(path[:2] == section for path in FIELDS)):
        return ("clock", clock[1], clock[2])
    if count and count[1] != "total":
        return ("ecc_blocks", count[1], count[2])
    return ()


def _path_without_partition(name: str) -> Path:
    """Return the path of the values in columns such as `NAME_xcp_0`, without the partition, or () if unknown."""
    if name.endswith(VIOLATION_SUFFIX):
        return ("throttle", name)
    if _COLUMN_WITHOUT_METRIC.fullmatch(name):
        return ("csv", name)
    return ("usage", name) if is_ignored(("usage", name)) else ()
