"""Cambricon's cnmon: the table of cards, as headings and what stands below them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from telemetry_parsers.boxed import columns as look
from telemetry_parsers.boxed.columns import QUIET, Column, column
from telemetry_parsers.boxed.page import Page
from telemetry_parsers.boxed.table import Box, is_table, read_table
from telemetry_parsers.boxed.targets import fact, identity, metric
from telemetry_parsers.boxed.tool import Shape, Tool
from telemetry_parsers.boxed.tool import parse as parse_with
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Capture, Command, Poll, Report
from telemetry_parsers.text.answers import ErrorText
from telemetry_parsers.text.lines import Line

TOOL = "cnmon"
VENDOR = "cambricon"

# Of `Ecc-Error` no document says whether it counts corrected or uncorrected errors, or since when.
_COLUMNS: Mapping[str, Column] = MappingProxyType(
    {
        "card": column(look.ID, identity("index")),
        "vf": QUIET,
        "mi": QUIET,
        "name": column(look.NAME, identity("model")),
        "firmware": column(look.WORD, fact("firmware")),
        "inited": QUIET,
        "driver": column(look.WORD, identity("driver")),
        "bus-id": column(look.BUS, identity("bus_id")),
        "util": column(look.PERCENT, metric("utilization_ratio")),
        "ecc-error": QUIET,
        "fan": column(look.PERCENT, metric("fan_ratio")),
        "temp": column(look.CELSIUS, metric("temperature_celsius", "core")),
        "pwr:usage/cap": column(look.WATTS_PAIR, metric("power_watts"), metric("power_cap_watts")),
        "memory-usage": column(look.BYTES_PAIR, metric("memory_used_bytes"), metric("memory_total_bytes")),
        "vmemory-usage": column(look.BYTES_PAIR),
        "sr-iov": column(look.WORD, fact("sr_iov")),
        "mode": column(look.WORD, fact("mode")),
        "compute-mode": column(look.NAME, fact("compute_mode")),
    }
)
_BANNER = re.compile(r"\bCNMON[ \t]{1,8}v?[0-9]")
_BOX = Box(
    columns=_COLUMNS,
    opening=frozenset({"card", "name", "firmware"}),
    banner=_BANNER,
    versions=(
        ("tool_version", re.compile(r"\bCNMON[ \t]{1,8}v?([0-9]\S{0,40})(?=\s)")),
        ("driver", re.compile(r"\bDriver[ \t]{1,8}v?([0-9]\S{0,40})(?=\s)")),
    ),
    expected=("Mon ", "Tue ", "Wed ", "Thu ", "Fri ", "Sat ", "Sun "),
)


def _read(lines: Sequence[Line], page: Page) -> bool:
    if not is_table(lines, _BOX):
        return False
    read_table(lines, _BOX, page)
    return True


_TOOL = Tool(
    name=TOOL,
    vendor=VENDOR,
    shapes=(Shape(_read),),
    silent="no output: check that the driver is loaded and that /dev/cambricon_ctl can be opened",
    errors=(
        ErrorText("no such device", "no_devices", None, "check that lspci shows the cards"),
        ErrorText("no device", "no_devices", None, "check that lspci shows the cards"),
        ErrorText("cannot find mlu", "no_devices", None, "check that lspci shows the cards"),
        ErrorText("driver error", "failed", "driver_gone", "load the driver cambricon-drv"),
    ),
)


def parse(capture: Capture) -> Report:
    """What cnmon said: devices and readings, or the reason why there are none."""
    return parse_with(capture, _TOOL)


PARSER = SourceParser(
    name=TOOL,
    vendor=VENDOR,
    gives=(
        "utilization_ratio", "memory_used_bytes", "memory_total_bytes", "power_watts", "power_cap_watts",
        "temperature_celsius", "fan_ratio", "processes",
    ),
    polls=(
        Poll(
            name="readings",
            request=Command(alternatives=((TOOL,),), folders=("/usr/bin", "/usr/local/neuware/bin")),
        ),
    ),
    parse=parse,
)  # fmt: skip  # kept in rows: one item on each line would be a page
