"""Iluvatar's ixsmi: the table of dies, as headings and what stands below them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from telemetry_parsers.boxed import columns as look
from telemetry_parsers.boxed.columns import Column, column
from telemetry_parsers.boxed.page import Page
from telemetry_parsers.boxed.table import Box, is_table, read_table
from telemetry_parsers.boxed.targets import fact, identity, metric
from telemetry_parsers.boxed.tool import Shape, Tool
from telemetry_parsers.boxed.tool import parse as parse_with
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Capture, Command, Poll, Report
from telemetry_parsers.text.answers import ErrorText
from telemetry_parsers.text.lines import Line

TOOL = "ixsmi"
VENDOR = "iluvatar"

_COLUMNS: Mapping[str, Column] = MappingProxyType(
    {
        "gpu": column(look.ID, identity("index")),
        "name": column(look.NAME, identity("model")),
        "bus-id": column(look.BUS, identity("bus_id")),
        "clock-sm": column(look.CLOCK, metric("clock_hertz", "sm")),
        "clock-mem": column(look.CLOCK, metric("clock_hertz", "memory")),
        "fan": column(look.PERCENT, metric("fan_ratio")),
        "temp": column(look.CELSIUS, metric("temperature_celsius", "core")),
        "perf": column(look.STATE, metric("performance_state")),
        "pwr:usage/cap": column(look.WATTS_PAIR, metric("power_watts"), metric("power_cap_watts")),
        "memory-usage": column(look.BYTES_PAIR, metric("memory_used_bytes"), metric("memory_total_bytes")),
        "gpu-util": column(look.PERCENT, metric("utilization_ratio")),
        "compute m.": column(look.NAME, fact("compute_mode")),
    }
)
_BOX = Box(
    columns=_COLUMNS,
    opening=frozenset({"gpu", "name", "clock-sm"}),
    banner=re.compile(r"\bIX-ML:[ \t]{0,8}[0-9]"),
    versions=(
        ("tool_version", re.compile(r"\bIX-ML:[ \t]{0,8}([0-9]\S{0,40})(?=\s)")),
        ("driver", re.compile(r"Driver Version:[ \t]{0,8}(\S{1,40})(?=\s)")),
    ),
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
    silent="no output: check that the driver is loaded and that LD_LIBRARY_PATH has /usr/local/corex/lib64",
    errors=(
        ErrorText("libixml", "failed", "library_mismatch", "set LD_LIBRARY_PATH to /usr/local/corex/lib64"),
        ErrorText("no devices were found", "no_devices", None, "check that lspci shows the cards"),
        ErrorText("no device", "no_devices", None, "check that lspci shows the cards"),
    ),
)


def parse(capture: Capture) -> Report:
    """What ixsmi said: devices and readings, or the reason why there are none."""
    return parse_with(capture, _TOOL)


PARSER = SourceParser(
    name=TOOL,
    vendor=VENDOR,
    gives=(
        "utilization_ratio", "memory_used_bytes", "memory_total_bytes", "power_watts", "power_cap_watts",
        "temperature_celsius", "fan_ratio", "clock_hertz", "performance_state", "processes",
    ),
    polls=(
        Poll(
            name="readings",
            request=Command(
                alternatives=((TOOL,),),
                env=(("LD_LIBRARY_PATH", "/usr/local/corex/lib64:/usr/local/corex/lib"),),
                folders=("/usr/local/corex/bin", "/usr/bin"),
            ),
        ),
    ),
    parse=parse,
)  # fmt: skip
