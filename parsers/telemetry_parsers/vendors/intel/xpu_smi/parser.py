"""Intel's xpu-smi: which of its shapes a text has, and the one parser for all of them."""

from __future__ import annotations

from collections.abc import Sequence

from telemetry_parsers.boxed.query import is_query, read_query
from telemetry_parsers.boxed.table import read_table
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Capture, Command, Poll, Report
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.frame import parse as parse_with
from telemetry_parsers.reports.tool import Shape, Tool, may_be_empty, of_lines, shape
from telemetry_parsers.text.answers import ErrorText
from telemetry_parsers.text.lines import Line
from telemetry_parsers.vendors.intel.xpu_smi import documents, grids, rows
from telemetry_parsers.vendors.intel.xpu_smi.keys import BOX, QUERY, TOOL, VENDOR

# Utilization, power, clock, temperatures, memory used as a share and in MiB: the numbers are those of 1.x.
_DUMPED = "0,1,2,3,4,5,18"


def _is_table(lines: Sequence[Line]) -> bool:
    """The version line alone: the headings are those of others, too."""
    return any(line.ended and BOX.banner.search(line.text) for line in lines)


def _read_table(lines: Sequence[Line], draft: Draft) -> None:
    read_table(lines, BOX, draft)


_TOOL = Tool(
    name=TOOL,
    vendor=VENDOR,
    shapes=(
        Shape(documents.read_json, "json"),
        of_lines(_is_table, _read_table),
        of_lines(grids.is_grid, grids.read_grid),
        shape(is_query, read_query, QUERY),
        of_lines(rows.is_ps, rows.read_ps, empty=may_be_empty),
        of_lines(rows.is_matrix, rows.read_matrix),
        of_lines(rows.is_csv, rows.read_csv),
    ),
    silent="no output: check that the driver i915 or xe is loaded and that /dev/dri can be opened",
    errors=(
        ErrorText("argument was not expected", "wrong_request"),
        ErrorText("arguments were not expected", "wrong_request"),
        ErrorText("usage: xpu-smi", "wrong_request", None, "this is the help text; name a sub-command"),
        ErrorText("intel xpu system management interface", "wrong_request", None, "this is the help text"),
        ErrorText("no device discovered", "no_devices", None, "check that lspci shows the cards"),
        ErrorText("no device", "no_devices", None, "check that lspci shows the cards"),
        ErrorText("device not found", "no_devices", None, "check that lspci shows the cards"),
        ErrorText(
            "level zero initialization error",
            "failed",
            "driver_gone",
            "load i915 or xe and install the level-zero driver",
        ),
        ErrorText("libze_loader", "failed", "library_mismatch", "install level-zero"),
    ),
)


def parse(capture: Capture) -> Report:
    """What Intel's xpu-smi said: devices and readings, or the reason why there are none."""
    return parse_with(capture, _TOOL)


PARSER = SourceParser(
    name=TOOL,
    vendor=VENDOR,
    gives=(
        "utilization_ratio", "engine_utilization_ratio", "power_watts", "power_cap_watts", "power_cap_min_watts",
        "power_cap_max_watts", "energy_joules_total", "memory_free_bytes", "pcie_link_generation", "pcie_link_width",
        "pcie_replays_total", "temperature_celsius", "temperature_slowdown_celsius",
        "temperature_shutdown_celsius", "fan_ratio", "clock_hertz", "clock_max_hertz", "memory_used_bytes",
        "memory_total_bytes", "memory_used_ratio", "memory_bandwidth_ratio", "ecc_enabled", "ecc_corrected_total",
        "ecc_uncorrected_total", "pcie_link_generation_max", "pcie_link_width_max", "health", "processes",
    ),
    polls=(
        Poll(
            name="readings",
            request=Command(
                alternatives=((TOOL, "dump", "-d", "-1", "-m", _DUMPED, "-i", "1", "-n", "1"), (TOOL,)),
                folders=("/usr/bin",),
            ),
        ),
        Poll(
            name="discovery",
            request=Command(
                alternatives=((TOOL, "discovery", "-j"), (TOOL, "discovery")),
                folders=("/usr/bin",),
            ),
            tier="slow",
            interval=60.0,
        ),
        Poll(
            name="details",
            request=Command(
                alternatives=(
                    (TOOL, "discovery", "-d", "{device}", "-j"),
                    (TOOL, "discovery", "-d", "{device}"),
                ),
                per="device",
                folders=("/usr/bin",),
            ),
            tier="inventory",
            interval=300.0,
            lists_devices=False,
        ),
        Poll(
            name="limits",
            request=Command(
                alternatives=((TOOL, "config", "-d", "{device}"),),
                per="device",
                folders=("/usr/bin",),
            ),
            tier="inventory",
            interval=300.0,
            lists_devices=False,
        ),
        Poll(
            name="health",
            request=Command(alternatives=((TOOL, "health", "-l"),), folders=("/usr/bin",)),
            tier="slow",
            interval=60.0,
            lists_devices=False,
        ),
        Poll(
            name="processes",
            request=Command(alternatives=((TOOL, "ps"),), folders=("/usr/bin",)),
            tier="slow",
            interval=60.0,
            lists_devices=False,
        ),
    ),
    parse=parse,
)  # fmt: skip
