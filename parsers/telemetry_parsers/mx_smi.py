"""MetaX' mx-smi, also sold as ht-smi: the table of GPUs, and the lists of --count-ecc and --show-temperature."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from telemetry_parsers.boxed import columns as look
from telemetry_parsers.boxed.columns import Column, column
from telemetry_parsers.boxed.lists import CardList, is_list, read_list
from telemetry_parsers.boxed.page import Page
from telemetry_parsers.boxed.table import Box, is_table, read_table
from telemetry_parsers.boxed.targets import fact, identity, metric
from telemetry_parsers.boxed.tool import Shape, Tool
from telemetry_parsers.boxed.tool import parse as parse_with
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Capture, Command, Poll, Report
from telemetry_parsers.text.answers import ErrorText
from telemetry_parsers.text.lines import Line

TOOL = "mx-smi"
_OTHER_NAME = "ht-smi"
VENDOR = "metax"
_FOLDERS = ("/opt/mxdriver/bin", "/opt/maca/bin", "/usr/bin", "/opt/htdriver/bin", "/opt/hpcc/bin")

# From 2.3 on a board and its GPUs have cells of their own, and power stands below the board.
_COLUMNS: Mapping[str, Column] = MappingProxyType(
    {
        "board": column(look.ID, fact("board")),
        "gpu": column(look.ID, identity("index")),
        "name": column(look.NAME, identity("model")),
        "bus-id": column(look.BUS, identity("bus_id")),
        "gpu-util": column(look.PERCENT, metric("utilization_ratio")),
        "persistence-m": column(look.WORD, fact("persistence_mode")),
        "persist-m": column(look.WORD, fact("persistence_mode")),
        "sgpu-m": column(look.WORD, fact("sgpu_mode")),
        "perf": column(look.STATE, metric("performance_state")),
        "temp": column(look.CELSIUS, metric("temperature_celsius", "core")),
        "pwr:usage/cap": column(look.WATTS_PAIR, metric("power_watts"), metric("power_cap_watts")),
        "memory-usage": column(look.BYTES_PAIR, metric("memory_used_bytes"), metric("memory_total_bytes")),
        "gpu-state": column(look.NAME, fact("gpu_state")),
    }
)
_BOX = Box(
    columns=_COLUMNS,
    opening=frozenset({"gpu", "name", "bus-id", "gpu-util"}),
    banner=re.compile(r"\b(?:MX|HT)-SMI[ \t]{1,8}v?[0-9]"),
    versions=(
        (
            "tool_version",
            re.compile(r"\b(?:MX|HT|mx|ht)-(?:SMI|smi)[ \t]{1,8}(?:version:[ \t]{0,8})?v?([0-9]\S{0,40})"),
        ),
        ("driver", re.compile(r"Driver Version:[ \t]{0,8}(\S{1,40})(?=\s)")),
    ),
    expected=("mx-smi", "ht-smi"),
)
_LIST = CardList(
    card=re.compile(r"GPU#([0-9]{1,4})[ \t]{1,20}(\S{1,40}(?: \S{1,40}){0,4})[ \t]{1,20}([0-9a-fA-F:.]{6,20})\Z"),
    card_gives=(identity("index"), identity("model"), identity("bus_id")),
    keys=MappingProxyType(
        {
            ("chip temperature", "hotspot"): (metric("temperature_celsius", "hotspot"),),
            ("chip temperature", "soc"): (metric("temperature_celsius", "soc"),),
            ("board temperature", "air-inlet"): (metric("temperature_celsius", "board"),),
            ("ecc errors", "sram correctable"): (metric("ecc_corrected_total", "sram"),),
            ("ecc errors", "sram uncorrectable"): (metric("ecc_uncorrected_total", "sram"),),
            ("ecc errors", "dram correctable"): (metric("ecc_corrected_total", "dram"),),
            ("ecc errors", "dram uncorrectable"): (metric("ecc_uncorrected_total", "dram"),),
            ("retired pages", "single bit ecc"): (metric("retired_pages", "single_bit_ecc"),),
            ("retired pages", "double bit ecc"): (metric("retired_pages", "double_bit_ecc"),),
        }
    ),
    head=MappingProxyType({"mx-smi version": "tool_version", "ht-smi version": "tool_version"}),
    count="attached gpus",
    suffix=re.compile(r"[ \t]{0,4}\(sensor[0-9]{1,3}\)\Z"),
)


def _read_table(lines: Sequence[Line], page: Page) -> bool:
    if not is_table(lines, _BOX):
        return False
    read_table(lines, _BOX, page)
    return True


def _read_list(lines: Sequence[Line], page: Page) -> bool:
    if not is_list(lines, _LIST):
        return False
    read_list(lines, _LIST, page)
    return True


_TOOL = Tool(
    name=TOOL,
    vendor=VENDOR,
    shapes=(Shape(_read_table), Shape(_read_list)),
    silent="no output: check that the driver metax is loaded and that /dev/mxcd can be opened",
    errors=(
        ErrorText("no device", "no_devices", None, "check that lspci shows the cards"),
        ErrorText("no gpu", "no_devices", None, "check that lspci shows the cards"),
        ErrorText(
            "attached gpus                                     : 0", "no_devices", None, "lspci shows the cards?"
        ),
    ),
)


def parse(capture: Capture) -> Report:
    """What mx-smi said: devices and readings, or the reason why there are none."""
    return parse_with(capture, _TOOL)


PARSER = SourceParser(
    name=TOOL,
    vendor=VENDOR,
    gives=(
        "utilization_ratio", "memory_used_bytes", "memory_total_bytes", "power_watts", "power_cap_watts",
        "temperature_celsius", "performance_state", "ecc_corrected_total", "ecc_uncorrected_total", "retired_pages",
        "processes",
    ),
    polls=(
        Poll(name="readings", request=Command(alternatives=((TOOL,), (_OTHER_NAME,)), folders=_FOLDERS)),
        Poll(
            name="temperatures",
            request=Command(
                alternatives=((TOOL, "--show-temperature"), (_OTHER_NAME, "--show-temperature")), folders=_FOLDERS
            ),
            lists_devices=False,
        ),
        Poll(
            name="errors",
            request=Command(alternatives=((TOOL, "--count-ecc"), (_OTHER_NAME, "--count-ecc")), folders=_FOLDERS),
            tier="slow",
            interval=60.0,
            lists_devices=False,
        ),
    ),
    parse=parse,
)  # fmt: skip
