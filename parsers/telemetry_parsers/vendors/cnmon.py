"""Parses Cambricon's cnmon: the table of cards, and the list of `cnmon info`."""

from __future__ import annotations

import re

from telemetry_parsers import units
from telemetry_parsers.like_nvidia_smi import cells as patterns
from telemetry_parsers.like_nvidia_smi.cells import IGNORED, column, nvidia_smi_columns
from telemetry_parsers.like_nvidia_smi.lists import CardListShape, is_card_heading, read_list
from telemetry_parsers.like_nvidia_smi.table import CardTableShape, is_table, read_table
from telemetry_parsers.model import Command, Poll
from telemetry_parsers.reports.targets import fact, identity, metric
from telemetry_parsers.reports.tool import Tool, shape
from telemetry_parsers.reports.tool_parser import parser_of
from telemetry_parsers.text.answers import ErrorText

TOOL = "cnmon"

# `Ecc-Error` is not read, because no document states which errors are counted.
_TABLE_SHAPE = CardTableShape(
    columns={
        "card": column(patterns.ID, identity("index")),
        "vf": IGNORED,
        "mi": IGNORED,
        **nvidia_smi_columns("name", "bus-id", "fan", "temp", "pwr:usage/cap", "memory-usage"),
        "firmware": column(patterns.WORD, fact("firmware")),
        "inited": IGNORED,
        "driver": column(patterns.WORD, identity("driver")),
        "util": column(patterns.PERCENT, metric("utilization_ratio")),
        "ecc-error": IGNORED,
        "vmemory-usage": column(patterns.BYTES_PAIR),
        "sr-iov": column(patterns.WORD, fact("sr_iov")),
        "mode": column(patterns.WORD, fact("mode")),
        "compute-mode": column(patterns.NAME, fact("compute_mode")),
    },
    required_headings=frozenset({"card", "name", "firmware"}),
    banner=re.compile(r"\bCNMON[ \t]{1,8}v?[0-9]"),
    versions=(
        ("tool_version", re.compile(r"\bCNMON[ \t]{1,8}v?([0-9]\S{0,40})(?=\s)")),
        ("driver", re.compile(r"\bDriver[ \t]{1,8}v?([0-9]\S{0,40})(?=\s)")),
    ),
    ends_with_processes=True,
    expected_starts=("Mon ", "Tue ", "Wed ", "Thu ", "Fri ", "Sat ", "Sun "),
)

_LINK_GENERATIONS = {f"{speed} gt/s": number for speed, number in units.PCIE_GENERATIONS.items()}
# No document describes the keys. The following keys are known from public programs that read them.
_LIST_SHAPE = CardListShape(
    card_heading=re.compile(r"Card[ \t]{0,40}:?[ \t]{0,8}([0-9]{1,4})\Z"),
    card_targets=(identity("index"),),
    targets_by_key={
        ("*", "product name"): (identity("model"),),
        ("*", "driver"): (identity("driver"),),
        ("*", "firmware"): (fact("firmware"),),
        ("*", "uuid"): (identity("uuid"),),
        ("*", "sn"): (identity("serial"),),
        ("physical memory usage", "total"): (metric("memory_total_bytes", unit="MiB"),),
        ("physical memory usage", "used"): (metric("memory_used_bytes", unit="MiB"),),
        ("physical memory usage", "free"): (metric("memory_free_bytes", unit="MiB"),),
        ("utilization", "mlu average"): (metric("utilization_ratio", unit="%"),),
        ("temperature", "board"): (metric("temperature_celsius", "board", unit="C"),),
        ("temperature", "chip"): (metric("temperature_celsius", "core", unit="C"),),
        ("power", "usage"): (metric("power_watts", unit="W"),),
        ("power", "cap"): (metric("power_cap_watts", unit="W"),),
        ("*", "current speed"): (metric("pcie_link_generation", words=_LINK_GENERATIONS),),
        ("*", "current width"): (metric("pcie_link_width"),),
    },
    ignored=frozenset({("*", "device id"), ("*", "vendor id")}),
    ignored_sections=frozenset({"pci", "virtual memory usage"}),
    address_keys=tuple(("pci", key) for key in ("domain id", "bus num", "device", "function")),
)

_TOOL = Tool(
    name=TOOL,
    vendor="cambricon",
    shapes=(shape(is_card_heading, read_list, _LIST_SHAPE), shape(is_table, read_table, _TABLE_SHAPE)),
    no_output="no output: check that the driver is loaded and that /dev/cambricon_ctl can be opened",
    errors=(
        ErrorText("no such device", "no_devices", None, "check that lspci shows the cards"),
        ErrorText("no device", "no_devices", None, "check that lspci shows the cards"),
        ErrorText("cannot find mlu", "no_devices", None, "check that lspci shows the cards"),
        ErrorText("driver error", "failed", "driver_gone", "load the cambricon-drv driver"),
    ),
)

PARSER = parser_of(
    _TOOL,
    Poll("readings", Command(((TOOL,),), folders=("/usr/bin", "/usr/local/neuware/bin"))),
    more_metrics=("processes",),
)
