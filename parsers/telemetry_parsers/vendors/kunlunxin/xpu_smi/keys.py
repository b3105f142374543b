"""What Kunlunxin's headings, keys and places mean: the table, the list of `-q` and the fields of `-m`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from telemetry_parsers.boxed import columns as look
from telemetry_parsers.boxed.columns import column, usual
from telemetry_parsers.boxed.lists import CardList
from telemetry_parsers.boxed.table import Box
from telemetry_parsers.reports.targets import ON_OFF, Target, fact, identity, metric, only

BOX = Box(
    columns={
        "xpu": column(look.ID, identity("index")),
        **usual("name", "persistence-m", "bus-id", "disp.a", "volatile uncorr. ecc", "fan", "temp"),
        **usual("perf", "pwr:usage/cap", "memory-usage", "compute m."),
        "l3-usage": column(look.BYTES_PAIR),
        "xpu-util": column(look.PERCENT, metric("utilization_ratio")),
        "sr-iov m.": column(look.NAME, fact("sr_iov")),
    },
    opening=frozenset({"xpu", "name", "bus-id"}),
    banner=re.compile(r"\bXPU-SMI\b.{1,80}\bXPU-RT Version:"),
    versions=(
        ("tool_version", re.compile(r"\bXPU-SMI[ \t]{1,8}([0-9]\S{0,40})(?=\s)")),
        ("driver", re.compile(r"Driver Version:[ \t]{0,8}([0-9]\S{0,40})(?=\s)")),
    ),
    expected=("Mon ", "Tue ", "Wed ", "Thu ", "Fri ", "Sat ", "Sun "),
    ends_with_processes=True,
)


LIST = CardList(
    card=re.compile(r"XPU ([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])\Z"),
    card_gives=(identity("bus_id"),),
    keys={
        ("", "product name"): (identity("model"),),
        ("", "serial number"): (identity("serial"),),
        ("", "xpu uuid"): (identity("uuid"),),
        ("", "minor number"): (identity("index"),),
        ("", "product architecture"): (fact("architecture"),),
        ("", "xpu part number"): (fact("part_number"),),
        ("firmware version", "all version"): (fact("firmware"),),
        ("pcie generation", "max"): only("pcie_link_generation_max"),
        ("pcie generation", "current"): only("pcie_link_generation"),
        ("link width", "max"): only("pcie_link_width_max"),
        ("link width", "current"): only("pcie_link_width"),
        ("memory usage", "total"): only("memory_total_bytes"),
        ("memory usage", "reserved"): only("memory_reserved_bytes"),
        ("memory usage", "used"): only("memory_used_bytes"),
        ("memory usage", "free"): only("memory_free_bytes"),
        ("utilization", "xpu"): only("utilization_ratio"),
        ("ecc mode", "current"): (metric("ecc_enabled", words=ON_OFF),),
        ("volatile", "dram correctable"): only("ecc_corrected_total", "dram"),
        ("volatile", "dram uncorrectable"): only("ecc_uncorrected_total", "dram"),
        ("temperature", "xpu current temp"): only("temperature_celsius", "core"),
        ("temperature", "memory current temp"): only("temperature_celsius", "memory"),
        ("power readings", "enforced power limit"): only("power_cap_watts"),
        ("power readings", "power draw"): only("power_watts"),
        ("clocks", "cluster"): only("clock_hertz", "cluster"),
        ("clocks", "cdnn"): only("clock_hertz", "cdnn"),
        ("*", "processes"): (metric("processes", words={"none": 0.0}),),
    },
    quiet=frozenset({*(("", key) for key in ("product brand", "pcie id")), ("ecc mode", "pending"), ("xpu link info", "")}),
    quiet_sections=frozenset({"firmware version", "pci", "l3 usage", "ecc errors", "aggregate", "processes"}),
    head={"driver version": "driver"},
    count="attached xpus",
)  # fmt: skip

# The same in the XML of `-q -x`, whose outermost section is the card's.
LOG = CardList(
    card=re.compile(r"xpu ([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])\Z"),
    card_gives=(identity("bus_id"),),
    keys={
        ("xpu", "product_name"): (identity("model"),),
        ("xpu", "serial"): (identity("serial"),),
        ("xpu", "uuid"): (identity("uuid"),),
        ("xpu", "minor_number"): (identity("index"),),
        ("xpu", "product_architecture"): (fact("architecture"),),
        ("xpu", "xpu_part_number"): (fact("part_number"),),
        ("xpu", "processes"): (metric("processes", words={"none": 0.0}),),
        ("firmware_version", "all_version"): (fact("firmware"),),
        ("pcie_gen", "max_link_gen"): only("pcie_link_generation_max"),
        ("pcie_gen", "current_link_gen"): only("pcie_link_generation"),
        ("link_widths", "max_link_width"): only("pcie_link_width_max"),
        ("link_widths", "current_link_width"): only("pcie_link_width"),
        **{("fb_memory_usage", name): only(f"memory_{name}_bytes") for name in ("total", "reserved", "used", "free")},
        ("utilization", "xpu_util"): only("utilization_ratio"),
        ("ecc_mode", "current_ecc"): (metric("ecc_enabled", words=ON_OFF),),
        ("volatile", "dram_correctable"): only("ecc_corrected_total", "dram"),
        ("volatile", "dram_uncorrectable"): only("ecc_uncorrected_total", "dram"),
        ("temperature", "xpu_temp"): only("temperature_celsius", "core"),
        ("temperature", "memory_temp"): only("temperature_celsius", "memory"),
        ("power_readings", "enforced_power_limit"): only("power_cap_watts"),
        ("power_readings", "power_draw"): only("power_watts"),
        ("clocks", "cluster_clock"): only("clock_hertz", "cluster"),
        ("clocks", "cdnn_clock"): only("clock_hertz", "cdnn"),
    },
    quiet=frozenset(
        {
            *(("xpu", key) for key in ("product_brand", "oam_id", "accounted_processes")), ("ecc_mode", "pending_ecc"),
            ("power_readings", "power_state"),
        }
    ),
    quiet_sections=frozenset(
        {
            "xpu_smi_log", "firmware_version", "pci", "pci_xpu_link_info", "l3_usage", "ecc_errors", "aggregate",
            "supported_xpu_target_temp", "processes", "accounted_processes",
        }
    ),
    head={"driver_version": "driver"},
    count="attached_xpus",
)  # fmt: skip

# The places of `-m`. The six clocks (9 to 14) have no names there, the temperature of the memory (6) is 0 on a P800.
PLACES: Mapping[int, Target] = {
    0: identity("bus_id"),
    2: identity("index"),
    3: identity("serial"),
    4: metric("temperature_celsius", "core", unit="C"),
    17: metric("memory_used_bytes", unit="MiB"),
    18: metric("memory_total_bytes", unit="MiB"),
    19: metric("utilization_ratio", unit="%"),
    20: fact("firmware"),
    21: identity("model"),
}
POWER, MODEL = 8, 21
# In what `-m` counts power, by the first word of the model; a model that is not here is not guessed.
POWER_UNITS: Mapping[str, str] = {"P800": "W", "K200": "mW"}
FEWEST_PLACES = 22
