"""Reads output that no poll requests, but that users may pass to `telemetry parse`."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence

from telemetry_parsers.reports.targets import Target, metric, only, parsed
from telemetry_parsers.rocm import values
from telemetry_parsers.rocm.listing import Entry, Listing
from telemetry_parsers.text.lines import Line, quote


def _clock_targets(domain: str) -> tuple[Target]:
    return (values.highest_of(parsed("clock_hertz", values.hertz, domain)),)


TARGETS: Mapping[str, tuple[Target, ...]] = {
    # Keys of ROCm 1 and 2.
    "temperature": only("temperature_celsius", "edge"),
    "average gpu power": only("power_average_watts"),
    "current gpu use": only("utilization_ratio"),
    "current gpu memory use": only("memory_activity_ratio"),
    # A key of `hy-smi --showhcuutil`, which measures over one second.
    "gpu util in last second": only("utilization_ratio"),
    # Keys of --showmetrics.
    "average_gfx_activity": only("utilization_ratio"),
    "average_umc_activity": only("memory_activity_ratio"),
    "average_socket_power": only("power_average_watts"),
    "current_socket_power": only("power_instant_watts"),
    "current_gfxclk": _clock_targets("graphics"),
    "current_uclk": _clock_targets("memory"),
    "current_socclk": _clock_targets("soc"),
    "current_vclk0": _clock_targets("video"),
    # Chips with several dies may print only the following keys.
    "current_gfxclks": _clock_targets("graphics"),
    "current_socclks": _clock_targets("soc"),
    "current_vclk0s": _clock_targets("video"),
    "vcn_activity": (values.highest_of(metric("engine_utilization_ratio", "vcn")),),
    "jpeg_activity": (values.highest_of(metric("engine_utilization_ratio", "jpeg")),),
    "average_mm_activity": only("engine_utilization_ratio", "multimedia"),
    "energy_accumulator": (parsed("energy_joules_total", values.joules),),
    "throttle_status": (parsed("throttled", values.nonzero_flag, "any"),),
    "indep_throttle_status": (parsed("throttled", values.nonzero_flag, "any"),),
    "pcie_replay_count_acc": only("pcie_replays_total"),
    "pcie_nak_sent_count_acc": only("pcie_errors_total", "nak_sent"),
    "pcie_nak_rcvd_count_acc": only("pcie_errors_total", "nak_received"),
    "pcie_l0_to_recov_count_acc": only("pcie_errors_total", "l0_to_recovery"),
    "pcie_replay_rover_count_acc": only("pcie_errors_total", "replay_rollover"),
    "pcie_bandwidth_inst": (parsed("pcie_bandwidth_bytes_per_second", values.bytes_per_second),),
    "pcie_link_width": only("pcie_link_width"),
    "pcie_link_speed": (parsed("pcie_link_generation", values.generation_from_tenths),),
    "voltage_gfx": only("voltage_volts", "graphics"),
    "voltage_soc": only("voltage_volts", "soc"),
    "voltage_mem": only("voltage_volts", "memory"),
    "current_fan_speed": only("fan_rpm"),
}
# Keys of --showmetrics that have no metric.
IGNORED_KEYS = (
    r"metric version and size|system_clock_counter|firmware_timestamp|xgmi_.{1,40}|num_partition"
    r"|average_[a-z0-9_]{1,40}|current_[a-z0-9_]{1,40}|pcie_[a-z0-9_]{1,60}"
    r"|[a-z0-9_]{1,60}_acc|gfxclk_lock_status|xcp_stats.{0,60}|accumulation_counter|vram_max_bandwidth"
)
TEMPERATURE_KEY = re.compile(r"temperature_([a-z0-9_]{1,20})\Z")

_MAX_STACKS = 16
# A row of the table that `hy-smi --showrasinfo` prints: `Block umc is: ENABLED (ue: 0, ce: 3)`.
_RAS_ROW = re.compile(
    r"Block ([A-Za-z0-9_]{2,16}) is: {0,4}([A-Za-z]{2,16}) {0,4}\(ue: {0,4}([0-9]{1,20}), {0,4}ce: {0,4}([0-9]{1,20})\)\s{0,8}\Z"
)
_RAS_KEY = re.compile(r"Block ([A-Za-z0-9_]{2,16}) is\Z")


def key_text_pairs(key: str, text: str) -> tuple[tuple[str, str], ...]:
    """Return this (key, text) pair, or a pair for each part of a RAS row or a list of HBM temperatures."""
    row = _RAS_ROW.match(f"{key}: {text}")
    if row is not None:
        name = f"{row[1]} RAS"
        return (name, row[2]), (f"{name} uncorrectable", row[3]), (f"{name} correctable", row[4])
    block = _RAS_KEY.match(key)
    if block is not None and "(" in text:
        # The counts are incomplete. They are not numbers, so they become problems.
        return (f"{block[1]} RAS uncorrectable", text), (f"{block[1]} RAS correctable", text)
    stacks = values.list_items(text) if key.lower().startswith("temperature_hbm") else None
    if stacks is None:
        return ((key, text),)
    prefix, suffix = key.lower().split("hbm", 1)
    return tuple((f"{prefix}hbm{index}{suffix}", stack) for index, stack in enumerate(stacks[:_MAX_STACKS]))


# An editor may have prepended a byte order mark or blanks. Some versions of hy-smi print a time column first.
_HEADING = re.compile(r"[\ufeff ]{0,16}(?:time(?:stamp)?, ?)?device,", re.IGNORECASE)
_ROW = re.compile(r" {0,16}(?:[0-9A-Z][^,]{0,40}, ?)?(?:card([0-9]{1,4})|system),")
# `--showdriverversion --csv` describes the node, not a card.
_NAME_VALUE_HEADING = re.compile(r"[\ufeff ]{0,16}name, ?value\s{0,8}\Z", re.IGNORECASE)
_NAME_VALUE_ROW = re.compile(r'\s{0,16}"([^"]{1,80})", ?"([^"]{0,400})"\s{0,8}\Z')
_IGNORED_COLUMNS = frozenset({"time", "timestamp", "device"})


def read_csv(lines: Sequence[Line]) -> Listing | None:
    """Read CSV output into a listing, or return None if there is no heading line."""
    headings: list[str] = []
    listing = Listing(system=_node_entries(lines), is_cut=not all(line.ended for line in lines))
    for line in lines:
        row = _ROW.match(line.text) if headings else None
        if _HEADING.match(line.text):
            headings = [cell.strip("\ufeff ") for cell in _csv_cells(line.text)]
            if not all(headings):
                listing.add_problem(line.where, "a column without a heading is not read")
        elif row is not None:
            entries = listing.system if row[1] is None else listing.ensure_card(int(row[1]))
            entries.extend(_row_entries(line, headings, listing))
        elif headings and line.text.lstrip().startswith(","):
            listing.add_problem(line.where, f"the row does not name a card: {quote(line.text)}")
        if not line.ended and headings:
            listing.add_problem(line.where, "the text ends inside this row; more cards may be missing")
    return listing if headings or listing.system else None


def _node_entries(lines: Sequence[Line]) -> list[Entry]:
    """Return the node's entries from a `name, value` table, or [] if there is no such table."""
    if not any(_NAME_VALUE_HEADING.match(line.text) for line in lines):
        return []
    rows = ((line, _NAME_VALUE_ROW.match(line.text)) for line in lines if line.ended)
    return [Entry(row[1], row[2].strip(), line.where) for line, row in rows if row is not None]


def _row_entries(line: Line, headings: Sequence[str], listing: Listing) -> list[Entry]:
    # In a row with an unclosed quote, part of a cell is missing.
    cells = _rejoin_cells(_csv_cells(line.text) if line.text.count('"') % 2 == 0 else [], len(headings))
    if not line.ended:
        cells = cells[:-1]
    elif len(cells) != len(headings):
        listing.add_problem(line.where, f"{len(cells)} cells below {len(headings)} headings, so the row is not read")
        return []
    pairs = zip(headings, cells, strict=False)
    return [Entry(key, text.strip(), line.where) for key, text in pairs if key.lower() not in _IGNORED_COLUMNS]


def _rejoin_cells(cells: list[str], column_count: int) -> list[str]:
    """Join cells that were split at an unquoted comma, as in `Co., Ltd.`."""
    if len(cells) <= column_count:
        return cells
    joined_cells: list[str] = []
    for cell in cells:
        if joined_cells and cell.startswith(" "):
            joined_cells[-1] += f",{cell}"
        else:
            joined_cells.append(cell)
    return joined_cells if len(joined_cells) == column_count else cells


def _csv_cells(text: str) -> list[str]:
    """Return the cells of a line, or [] if the csv module rejects the line."""
    try:
        return next(csv.reader([text]), [])
    except csv.Error:  # not valid CSV; the caller reports the line
        return []
