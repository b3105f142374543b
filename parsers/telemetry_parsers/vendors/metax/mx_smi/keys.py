"""What MetaX' headings and keys mean: the table of GPUs, that of their slices, the lists, the JSON and the monitor."""

from __future__ import annotations

import re
from collections.abc import Mapping

from telemetry_parsers import units
from telemetry_parsers.boxed import columns as look
from telemetry_parsers.boxed.columns import QUIET, Column, column, usual
from telemetry_parsers.boxed.lists import CardList
from telemetry_parsers.boxed.monitor import Monitor
from telemetry_parsers.boxed.table import Box
from telemetry_parsers.reports.targets import ON_OFF, Target, fact, health, identity, metric, only

_POWER, _CAP = metric("power_watts"), metric("power_cap_watts")
_HOTSPOT = metric("temperature_celsius", "hotspot", unit="C")
_UTILIZATION = metric("utilization_ratio", unit="%")
# Whether the GPU can be used at all.
STATE = health({"available": "ok", "unavailable": "critical", "not available": "critical"})
_ENCODER = metric("engine_utilization_ratio", "encoder", unit="%")
_DECODER = metric("engine_utilization_ratio", "decoder", unit="%")
SLICES = "sliced gpu"
# From 2.3 on a board and its GPUs have cells of their own, and power stands below the board; 2.1.6 prints no limit.
BOX = Box(
    columns={
        "board": column(look.ID, fact("board")),
        "gpu": column(look.ID, identity("index")),
        **usual("name", "bus-id", "perf", "temp", "memory-usage"),
        "gpu-util": column(look.PERCENT, _UTILIZATION),
        "persistence-m": column(look.SWITCH, fact("persistence_mode")),
        "persist-m": column(look.SWITCH, fact("persistence_mode")),
        "sgpu-m": column(look.WORD, fact("sgpu_mode")),
        "power": column(look.WATTS, _POWER),
        "pwr:usage/cap": column(look.WATTS_PAIR, _POWER, _CAP),
        "gpu-state": column(look.NAME, STATE),
    },
    opening=frozenset({"gpu", "name", "bus-id", "gpu-util"}),
    banner=re.compile(r"\b(?:MX|HT)-SMI[ \t]{1,8}v?[0-9]"),
    versions=(
        (
            "tool_version",
            re.compile(r"\b(?:MX|HT|mx|ht)-(?:SMI|smi)[ \t]{1,8}(?:version:[ \t]{0,8})?v?([0-9]\S{0,40})(?=\s)"),
        ),
        ("driver", re.compile(r"Driver Version:[ \t]{0,8}(\S{1,40})(?=\s)")),
    ),
    expected=("mx-smi", "ht-smi"),
    asides=(SLICES,),
)
# Of the slices of a GPU: `Compute` is the share that a slice may use, not what it does.
SLICE_COLUMNS: Mapping[str, Column] = {
    "minor": QUIET,
    "gpu": column(look.ID, identity("index")),
    "sgpu-id": column(look.ID, identity("partition")),
    "compute": QUIET,
    "vram quota": column(look.BYTES_PAIR, metric("memory_used_bytes"), metric("memory_total_bytes")),
    "sgpu-util": column(look.PERCENT, _UTILIZATION),
}


def _generation(key: str) -> tuple[Target, ...]:
    speeds = {f"{speed} gt/s": number for speed, number in units.PCIE_GENERATIONS.items()}
    return (metric(key, words=speeds),)


def _throttled(*reasons: str) -> dict[tuple[str, str], tuple[Target, ...]]:
    words = {"active": 1.0, "not active": 0.0}
    section = "xcore clocks throttle reason"
    return {(section, reason): (metric("throttled", reason.replace(" ", "_"), words=words),) for reason in reasons}


_BOARD_SENSORS = ("drmos_soc", "drmos_core", "tdiode")
LIST = CardList(
    card=re.compile(r"GPU#([0-9]{1,4})[ \t]{1,20}(\S{1,40}(?: \S{1,40}){0,4})[ \t]{1,20}([0-9a-fA-F:.]{6,20})\Z"),
    card_gives=(identity("index"), identity("model"), identity("bus_id")),
    keys={
        ("chip temperature", "hotspot"): only("temperature_celsius", "hotspot"),
        ("chip temperature", "soc"): only("temperature_celsius", "soc"),
        ("board temperature", "air-inlet"): only("temperature_celsius", "board"),
        ("ecc errors", "sram correctable"): only("ecc_corrected_total", "sram"),
        ("ecc errors", "sram uncorrectable"): only("ecc_uncorrected_total", "sram"),
        ("ecc errors", "dram correctable"): only("ecc_corrected_total", "dram"),
        ("ecc errors", "dram uncorrectable"): only("ecc_uncorrected_total", "dram"),
        ("retired pages", "single bit ecc"): only("retired_pages", "single_bit_ecc"),
        ("retired pages", "double bit ecc"): only("retired_pages", "double_bit_ecc"),
        ("ecc state", "state"): (metric("ecc_enabled", words=ON_OFF),),
        ("memory", "vram total"): only("memory_total_bytes"),
        ("memory", "vram used"): only("memory_used_bytes"),
        ("utilization", "gpu"): (_UTILIZATION,),
        ("utilization", "vpue"): (_ENCODER,),
        ("utilization", "vpud"): (_DECODER,),
        ("board power", "total"): (_POWER,),
        ("board power", "limit"): (_CAP,),
        ("clock", "xcore"): only("clock_hertz", "graphics"),
        ("clock", "mc"): only("clock_hertz", "memory"),
        ("clock", "vpue"): only("clock_hertz", "vpue"),
        ("clock", "vpud"): only("clock_hertz", "vpud"),
        ("xcore", "xcore_clk"): only("clock_hertz", "graphics"),
        ("mc0", "mc0_dficlk"): only("clock_hertz", "memory"),
        ("soc", "soc_clk"): only("clock_hertz", "soc"),
        ("vpue", "vpu_encclk"): only("clock_hertz", "vpue"),
        ("vpud", "vpu_decclk0"): only("clock_hertz", "vpud"),
        ("pcie info", "current speed"): _generation("pcie_link_generation"),
        ("pcie info", "max speed"): _generation("pcie_link_generation_max"),
        ("pcie info", "current width"): only("pcie_link_width"),
        ("pcie info", "max width"): only("pcie_link_width_max"),
        ("serial number", "board serial"): (identity("serial"),),
        ("hardware info", "board serial number"): (identity("serial"),),
        ("hardware info", "board part number"): (fact("part_number"),),
        ("version", "bios"): (fact("firmware"),),
        ("version", "kmd"): (identity("driver"),),
        **_throttled(
            "applications limit", "over power", "chip over temperature", "vr over temperature",
            "hbm over temperature", "thermal over temperature", "pcc", "power brake", "didt", "other",
        ),
    },
    quiet=frozenset(
        {
            *(("board temperature", sensor) for sensor in (*_BOARD_SENSORS, "air-outlet")),
            *(("xcore clocks throttle reason", reason) for reason in ("idle", "low usage")),
            *(("memory", f"{kind} {what}") for kind in ("vis_vram", "xtt") for what in ("total", "used", "usage")),
            ("memory", "vram usage"),
            *(("board power", f"way {number}") for number in range(8)),
            *(("version", part) for part in ("maca", "hpcc", "smp0", "smp1", "ccx0", "ccx1", "ccx2", "vr0", "vr1", "mcu")),
            ("serial number", "chip serial"),
            *(("hardware info", f"{name} name") for name in ("model", "chip")),
            *(("hardware info", name) for name in ("manufacturer", "chip serial number", "memory type", "memory capacity")),
            ("mc0", "mc0_bypassclk"),
            *(("vpud", f"vpu_decclk{number}") for number in range(1, 8)),
        }
    ),
    quiet_sections=frozenset(
        {
            "pmbus voltage", "pmbus current", "pmbus power", "board voltage", "board current", "clocks", "csc", "mc1",
            "dnoc", "ccx", "dpm current performance level", "dpm performance levels", "single core usage", "ap usage",
            "hbm bandwidth", "pcie bandwidth", "pptable version", "vbios info", "sys info", "xcore power state",
            "vpue power state", "vpud power state", "hbm power state", "pci power state",
        }
    ),
    head={"mx-smi version": "tool_version", "ht-smi version": "tool_version"},
    count="attached gpus",
    suffix=re.compile(r"[ \t]{0,4}\(sensor[0-9]{1,3}\)\Z"),
)  # fmt: skip

# `-j`: the path of each number within the object of a card, whose name is its bus address.
DOCUMENT: Mapping[tuple[str, ...], Target] = {
    ("device_id",): identity("index"),
    ("vbios_version",): fact("firmware"),
    ("hotspot",): _HOTSPOT,
    ("utilization",): _UTILIZATION,
    ("clocks", "XCORE"): metric("clock_hertz", "graphics", unit="MHz"),
    ("clocks", "XCORE", "XCORE_CLK"): metric("clock_hertz", "graphics", unit="MHz"),
    ("clocks", "MC"): metric("clock_hertz", "memory", unit="MHz"),
    ("clocks", "VPUE"): metric("clock_hertz", "vpue", unit="MHz"),
    ("clocks", "VPUD"): metric("clock_hertz", "vpud", unit="MHz"),
}
DOCUMENT_VERSIONS: Mapping[str, str] = {"smi_version": "tool_version", "driver_version": "driver"}

MONITOR = Monitor(
    marks=("dev,", "idx,"),
    index="dev",
    columns={
        ("hottemp", "c"): _HOTSPOT,
        ("soctemp", "c"): metric("temperature_celsius", "soc", unit="C"),
        ("coretemp", "c"): metric("temperature_celsius", "core", unit="C"),
        ("power", "w"): metric("power_watts", unit="W"),
        ("gpu", "%"): _UTILIZATION,
        ("vpue", "%"): _ENCODER,
        ("vpud", "%"): _DECODER,
        ("vram", "%"): metric("memory_used_ratio", unit="%"),
        ("total", "gb"): metric("memory_total_bytes", unit="GB"),
        ("bdfid", ""): identity("bus_id"),
    },
    quiet=frozenset({"die", "visvram", "xtt"}),
)
