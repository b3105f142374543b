"""Kunlunxin's xpu-smi: which of its shapes a text has, and the one parser for all of them."""

from __future__ import annotations

from telemetry_parsers.boxed.lists import is_list, read_list
from telemetry_parsers.boxed.markup import markup
from telemetry_parsers.boxed.table import is_table, read_table
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Capture, Command, Poll, Report
from telemetry_parsers.reports.frame import parse as parse_with
from telemetry_parsers.reports.tool import Tool, of_lines, shape
from telemetry_parsers.text.answers import ErrorText
from telemetry_parsers.vendors.kunlunxin.xpu_smi.keys import BOX, LIST, LOG, TOOL, VENDOR
from telemetry_parsers.vendors.kunlunxin.xpu_smi.places import is_places, read_places

_COMMANDS = ("xpu-smi", "xpu_smi")


_TOOL = Tool(
    name=TOOL,
    vendor=VENDOR,
    shapes=(
        markup(LOG),
        shape(is_list, read_list, LIST),
        shape(is_table, read_table, BOX),
        of_lines(is_places, read_places),
    ),
    silent="no output: check that the driver kunlun is loaded and that /dev/xpuctrl can be opened",
    errors=(
        ErrorText("no devices were found", "no_devices", None, "check that lspci shows the cards"),
        ErrorText("no device", "no_devices", None, "check that lspci shows the cards"),
        ErrorText("argument was not expected", "wrong_request"),
        ErrorText("libxpuml", "failed", "library_mismatch", "reinstall the driver package"),
    ),
)


def parse(capture: Capture) -> Report:
    """What Kunlunxin's xpu-smi said: devices and readings, or the reason why there are none."""
    return parse_with(capture, _TOOL)


PARSER = SourceParser(
    name=TOOL,
    vendor=VENDOR,
    gives=(
        "power_watts", "power_cap_watts", "temperature_celsius", "fan_ratio", "utilization_ratio",
        "memory_used_bytes", "memory_total_bytes", "memory_free_bytes", "memory_reserved_bytes", "performance_state",
        "clock_hertz", "ecc_enabled", "ecc_corrected_total", "ecc_uncorrected_total", "pcie_link_generation",
        "pcie_link_generation_max", "pcie_link_width", "pcie_link_width_max", "processes",
    ),
    polls=(
        Poll(
            name="readings",
            request=Command(
                alternatives=tuple((name, *more) for more in (("-q",), ()) for name in _COMMANDS),
                folders=("/usr/local/xpu/bin", "/usr/local/bin", "/usr/bin"),
            ),
        ),
    ),
    parse=parse,
)  # fmt: skip
