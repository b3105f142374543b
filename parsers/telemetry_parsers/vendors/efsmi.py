"""Parses Enflame's efsmi: the table of cards, the monitor, and the list of `-q`."""

from __future__ import annotations

import re

from telemetry_parsers.like_nvidia_smi import cells as patterns
from telemetry_parsers.like_nvidia_smi.cells import IGNORED, column
from telemetry_parsers.like_nvidia_smi.lists import CardListShape, is_card_heading, read_list
from telemetry_parsers.like_nvidia_smi.monitor import MonitorShape, is_monitor, read_monitor
from telemetry_parsers.like_nvidia_smi.table import CardTableShape, is_table, read_table
from telemetry_parsers.model import Command, Poll
from telemetry_parsers.reports.targets import ON_OFF, fact, health, identity, metric, only
from telemetry_parsers.reports.tool import Tool, shape
from telemetry_parsers.reports.tool_parser import parser_of
from telemetry_parsers.text.answers import ErrorText

TOOL = "efsmi"

_ECC_ENABLED = metric("ecc_enabled", words=ON_OFF)
_MEMORY_TOTAL = metric("memory_total_bytes")
_VERSION = re.compile(r"\bEFSMI:?[ \t]{1,8}V?([0-9]\S{0,40})(?=\s)")
# `Mem` is the total memory. The memory in use is printed only by `-q`, and by the monitor in percent.
_TABLE_SHAPE = CardTableShape(
    columns={
        "dev": column(patterns.ID, identity("index")),
        "name": column(patterns.NAME, identity("model")),
        "fw ver": column(patterns.WORD, fact("firmware")),
        "boot fw ver": column(patterns.WORD, fact("firmware")),
        "bus-id": column(patterns.BUS, identity("bus_id")),
        "ecc": column(patterns.WORD, _ECC_ENABLED),
        "temp": column(patterns.BARE_CELSIUS, metric("temperature_celsius", "core", unit="C")),
        "dpm": IGNORED,
        "lpm": IGNORED,
        "pwr(usage/cap)": column(patterns.WATTS_PAIR, metric("power_watts"), metric("power_cap_watts")),
        "mem": column(patterns.BYTES, _MEMORY_TOTAL),
        "gcu virt": column(patterns.WORD, fact("virtualization")),
        "dused": column(patterns.PERCENT, metric("utilization_ratio")),
        "sn": column(patterns.WORD, identity("serial")),
    },
    required_headings=frozenset({"dev", "name", "bus-id"}),
    banner=_VERSION,
    versions=(("tool_version", _VERSION), ("driver", re.compile(r"Driver Ver:[ \t]{0,8}([0-9]\S{0,40})(?=\s)"))),
    lists_processes=False,
)
_MONITOR_SHAPE = MonitorShape(
    heading_starts=("*",),
    index_column="dev",
    columns={
        ("pwr", "w"): metric("power_watts", unit="W"),
        ("dtemp", "c"): metric("temperature_celsius", "core", unit="C"),
        ("dused", "%"): metric("utilization_ratio", unit="%"),
        ("mused", "%"): metric("memory_used_ratio", unit="%"),
        ("mem", "mib"): metric("memory_total_bytes", unit="MiB"),
        ("mclk", "mhz"): metric("clock_hertz", "memory", unit="MHz"),
    },
    ignored=frozenset({"sip", "dpm", "lpm", "txpci", "rxpci"}),
)

_LIST_SHAPE = CardListShape(
    card_heading=re.compile(r"DEV ID[ \t]{1,8}([0-9]{1,4})\Z"),
    card_targets=(identity("index"),),
    targets_by_key={
        ("driver info", "ver"): (identity("driver"),),
        ("device info", "dev name"): (identity("model"),),
        ("device info", "dev uuid"): (identity("uuid"),),
        ("device info", "dev sn"): (identity("serial"),),
        ("device info", "dev pn"): (fact("part_number"),),
        ("device info", "health"): (health({"true": "ok", "false": "alarm"}),),
        ("*", "max link speed"): only("pcie_link_generation_max"),
        ("*", "max link width"): only("pcie_link_width_max"),
        ("*", "cur link speed"): only("pcie_link_generation"),
        ("*", "cur link width"): only("pcie_link_width"),
        ("clock info", "mem clk"): only("clock_hertz", "memory"),
        ("power info", "power capa"): only("power_cap_watts"),
        ("power info", "cur power"): only("power_watts"),
        ("device mem info", "total size"): (_MEMORY_TOTAL,),
        ("device mem info", "mem size"): (_MEMORY_TOTAL,),
        ("device mem info", "reserved size"): only("memory_reserved_bytes"),
        ("device mem info", "used size"): only("memory_used_bytes"),
        ("device mem info", "mem usage"): only("memory_used_bytes"),
        ("device mem info", "free size"): only("memory_free_bytes"),
        ("device mem info", "mem ecc"): (_ECC_ENABLED,),
        ("temperature info", "gcu temp"): only("temperature_celsius", "core"),
        ("device usage info", "gcu usage"): only("utilization_ratio"),
        ("ecc mode", "current"): (_ECC_ENABLED,),
        ("vpu info", "encoder usage"): only("engine_utilization_ratio", "encoder"),
        ("vpu info", "decoder usage"): only("engine_utilization_ratio", "decoder"),
    },
    ignored=frozenset(
        {
            *(("device info", key) for key in ("dev mfd", "dev type", "dev slot")),
            *(("*", key) for key in ("vendor id", "device id", "tx throughput", "rx throughput")),
            ("power info", "dpm level"),
            ("ecc mode", "pending"),
            ("link info", ""),
        }
    ),
    ignored_sections=frozenset(
        {"voltage info", "rma info", "power cable", "error records", "error details", "error records / error details",
         "pcie info"}
    ),
    address_keys=tuple(("pcie info", key) for key in ("domain", "bus", "dev", "func")),
)  # fmt: skip

_TOOL = Tool(
    name=TOOL,
    vendor="enflame",
    shapes=(
        shape(is_card_heading, read_list, _LIST_SHAPE),
        shape(is_monitor, read_monitor, _MONITOR_SHAPE),
        shape(is_table, read_table, _TABLE_SHAPE),
    ),
    no_output="no output: check that the enflame driver is loaded and that /dev/gcu0 can be opened",
    errors=(
        ErrorText("no device", "no_devices", None, "check that lspci shows the cards"),
        ErrorText("not find any device", "no_devices", None, "check that lspci shows the cards"),
        ErrorText("libefml", "failed", "library_mismatch", "reinstall the driver package"),
        ErrorText("efml init", "failed", "driver_gone", "load the enflame driver"),
    ),
)

PARSER = parser_of(
    _TOOL, Poll("readings", Command(((TOOL, "-q"), (TOOL,)), folders=("/usr/bin", "/usr/local/efsmi", "/opt/tops/bin")))
)
