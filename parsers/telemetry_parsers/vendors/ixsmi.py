"""Parses Iluvatar's ixsmi: the table of dies, `--query-gpu`, and the XML of `-q -x`."""

from __future__ import annotations

import re

from telemetry_parsers.like_nvidia_smi import cells as patterns
from telemetry_parsers.like_nvidia_smi.cells import column, nvidia_smi_columns
from telemetry_parsers.like_nvidia_smi.lists import CardListShape, is_card_heading, read_list, xml_log
from telemetry_parsers.like_nvidia_smi.monitor import NVIDIA_SMI_FIELDS, QueryShape, query_headings, read_query
from telemetry_parsers.like_nvidia_smi.table import CardTableShape, is_table, read_table
from telemetry_parsers.model import Command, Poll
from telemetry_parsers.reports.targets import ON_OFF, fact, identity, metric, only
from telemetry_parsers.reports.tool import Tool, shape
from telemetry_parsers.reports.tool_parser import parser_of
from telemetry_parsers.text.answers import ErrorText

TOOL = "ixsmi"

_TABLE_SHAPE = CardTableShape(
    columns={
        "gpu": column(patterns.ID, identity("index")),
        **nvidia_smi_columns(
            "name", "bus-id", "fan", "temp", "perf", "pwr:usage/cap", "memory-usage", "gpu-util", "compute m."
        ),
        "clock-sm": column(patterns.CLOCK, metric("clock_hertz", "sm")),
        "clock-mem": column(patterns.CLOCK, metric("clock_hertz", "memory")),
    },
    required_headings=frozenset({"gpu", "name", "clock-sm"}),
    banner=re.compile(r"\bIX-ML:[ \t]{0,8}[0-9]"),
    versions=(
        ("tool_version", re.compile(r"\bIX-ML:[ \t]{0,8}([0-9]\S{0,40})(?=\s)")),
        ("driver", re.compile(r"Driver Version:[ \t]{0,8}(\S{1,40})(?=\s)")),
    ),
    ends_with_processes=True,
)

_POWER_CAP = metric("power_cap_watts")
# Fields of old and new versions of the tool. The unit is printed after the number or in the heading.
_QUERY_SHAPE = QueryShape(
    fields={
        **NVIDIA_SMI_FIELDS,
        "gpu_uuid": identity("uuid"),
        "gpu_serial": identity("serial"),
        "gpu_bus_id": identity("bus_id"),
        "utilization.gpu": metric("utilization_ratio"),
        "memory.total": metric("memory_total_bytes"),
        "memory.used": metric("memory_used_bytes"),
        "memory.free": metric("memory_free_bytes"),
        "power.draw": metric("power_watts"),
        "gpu.power.draw": metric("power_watts"),
        "power.limit": _POWER_CAP,
        "gpu.power.limit": _POWER_CAP,
        "gpu.current.power.limit": _POWER_CAP,
        "gpu.default.power.limit": metric("power_cap_default_watts"),
        "fan.speed": metric("fan_ratio"),
        "pstate": metric("performance_state"),
        "clocks.current.sm": metric("clock_hertz", "sm"),
        "clocks.current.memory": metric("clock_hertz", "memory"),
        "clocks.max.sm": metric("clock_max_hertz", "sm"),
        "clocks.max.memory": metric("clock_max_hertz", "memory"),
        "pcie.link.gen.current": metric("pcie_link_generation"),
        "pcie.link.gen.max": metric("pcie_link_generation_max"),
        "pcie.link.width.current": metric("pcie_link_width"),
        "pcie.link.width.max": metric("pcie_link_width_max"),
    },
    # The board's power is printed for each of its dies, so a sum over the dies would be too high.
    ignored=frozenset(
        {
            "timestamp", "count", "cuda_version", "utilization.memory", "board.power.draw",
            "pci.domain", "pci.bus", "pci.device", "pci.device_id", "pci.sub_device_id",
        }
    ),
)  # fmt: skip

# The board's power readings are ignored, because they are repeated for each die.
_XML_SHAPE = CardListShape(
    card_heading=re.compile(r"gpu ([0-9a-fA-F:.]{6,20})\Z"),
    card_targets=(identity("bus_id"),),
    targets_by_key={
        ("gpu", "product_name"): (identity("model"),),
        ("gpu", "serial"): (identity("serial"),),
        ("gpu", "uuid"): (identity("uuid"),),
        ("gpu", "minor_number"): (identity("index"),),
        ("gpu", "vbios_version"): (fact("firmware"),),
        ("gpu", "fan_speed"): only("fan_ratio"),
        ("gpu", "compute_mode"): (fact("compute_mode"),),
        ("gpu", "performance_state"): only("performance_state"),
        ("gpu", "processes"): (metric("processes", words={"none": 0.0}),),
        **{
            (section, name): only(f"memory_{name}_bytes")
            for section in ("memory_usage", "fb_memory_usage")
            for name in ("total", "used", "free")
        },
        ("utilization", "gpu_util"): only("utilization_ratio"),
        ("utilization", "encoder_util"): only("engine_utilization_ratio", "encoder"),
        ("utilization", "decoder_util"): only("engine_utilization_ratio", "decoder"),
        ("ecc_mode", "current_ecc"): (metric("ecc_enabled", words=ON_OFF),),
        ("temperature", "gpu_temp"): only("temperature_celsius", "core"),
        ("temperature", "memory_temp"): only("temperature_celsius", "memory"),
        ("power_readings", "gpu_power_draw"): only("power_watts"),
        ("power_readings", "current_gpu_power_limit"): (_POWER_CAP,),
        ("clocks", "sm_clock"): only("clock_hertz", "sm"),
        ("clocks", "mem_clock"): only("clock_hertz", "memory"),
        ("pcie_gen", "current_link_gen"): only("pcie_link_generation"),
        ("pcie_gen", "max_link_gen"): only("pcie_link_generation_max"),
        ("link_widths", "current_link_width"): only("pcie_link_width"),
        ("link_widths", "max_link_width"): only("pcie_link_width_max"),
    },
    # `ecc_errors` is not read, because no document states when the tool starts to count.
    ignored=frozenset(
        (("utilization", "memory_util"), ("power_readings", "board_power_draw"), ("power_readings", "current_board_power_limit"))
    ),
    ignored_sections=frozenset({"ixsmi_log", "pci", "pci_gpu_link_info", "ecc_errors", "processes"}),
    fact_by_header_key={"driver_version": "driver"},
    count_key="attached_gpus",
)  # fmt: skip

# The output of `-L`, with one line for each die.
_LIST_SHAPE = CardListShape(
    card_heading=re.compile(
        r"GPU[ \t]{1,4}([0-9]{1,4})[ \t]{0,4}:[ \t]{1,8}(Iluvatar \S.{0,60}?)[ \t]{1,8}\(UUID:[ \t]{0,4}([0-9A-Za-z-]{1,64})\)\Z"
    ),
    card_targets=(identity("index"), identity("model"), identity("uuid")),
    targets_by_key={},
)

_TOOL = Tool(
    name=TOOL,
    vendor="iluvatar",
    shapes=(
        xml_log(_XML_SHAPE),
        shape(is_table, read_table, _TABLE_SHAPE),
        shape(query_headings, read_query, _QUERY_SHAPE),
        shape(is_card_heading, read_list, _LIST_SHAPE),
    ),
    no_output="no output: check that the driver is loaded and that LD_LIBRARY_PATH contains /usr/local/corex/lib64",
    errors=(
        ErrorText("libixml", "failed", "library_mismatch", "set LD_LIBRARY_PATH to /usr/local/corex/lib64"),
        ErrorText("no devices were found", "no_devices", None, "check that lspci shows the cards"),
        ErrorText("no device", "no_devices", None, "check that lspci shows the cards"),
        ErrorText("not a valid field", "wrong_request"),
    ),
)

PARSER = parser_of(
    _TOOL,
    Poll(
        "readings",
        Command(
            ((TOOL,),),
            env=(("LD_LIBRARY_PATH", "/usr/local/corex/lib64:/usr/local/corex/lib"),),
            folders=("/usr/local/corex/bin", "/usr/bin"),
        ),
    ),
)
