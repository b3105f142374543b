"""Keys that no poll asks for: of `--showmetrics`, the driver's own table since ROCm 6.3; of ROCm 1 and 2; of hy-smi."""

from __future__ import annotations

import re
from collections.abc import Mapping

from telemetry_parsers.reports.targets import Target, metric, only, special
from telemetry_parsers.rocm import values


def _clock(domain: str) -> tuple[Target]:
    return (values.highest(special("clock_hertz", values.hertz, domain)),)


TARGETS: Mapping[str, tuple[Target, ...]] = {
    # Of ROCm 1 and 2.
    "temperature": only("temperature_celsius", "edge"),
    "average gpu power": only("power_average_watts"),
    "current gpu use": only("utilization_ratio"),
    "current gpu memory use": only("memory_activity_ratio"),
    # Of hy-smi --showhcuutil, which measures for a second.
    "gpu util in last second": only("utilization_ratio"),
    # Of --showmetrics.
    "average_gfx_activity": only("utilization_ratio"),
    "average_umc_activity": only("memory_activity_ratio"),
    "average_socket_power": only("power_average_watts"),
    "current_socket_power": only("power_instant_watts"),
    "current_gfxclk": _clock("graphics"),
    "current_uclk": _clock("memory"),
    "current_socclk": _clock("soc"),
    "current_vclk0": _clock("video"),
    # Where a chip has several dies: for those that leave the figure above out.
    "current_gfxclks": _clock("graphics"),
    "current_socclks": _clock("soc"),
    "current_vclk0s": _clock("video"),
    "vcn_activity": (values.highest(metric("engine_utilization_ratio", "vcn")),),
    "jpeg_activity": (values.highest(metric("engine_utilization_ratio", "jpeg")),),
    "average_mm_activity": only("engine_utilization_ratio", "multimedia"),
    "energy_accumulator": (special("energy_joules_total", values.joules),),
    "throttle_status": (special("throttled", values.any_bit, "any"),),
    "indep_throttle_status": (special("throttled", values.any_bit, "any"),),
    "pcie_replay_count_acc": only("pcie_replays_total"),
    "pcie_nak_sent_count_acc": only("pcie_errors_total", "nak_sent"),
    "pcie_nak_rcvd_count_acc": only("pcie_errors_total", "nak_received"),
    "pcie_l0_to_recov_count_acc": only("pcie_errors_total", "l0_to_recovery"),
    "pcie_replay_rover_count_acc": only("pcie_errors_total", "replay_rollover"),
    "pcie_bandwidth_inst": (special("pcie_bandwidth_bytes_per_second", values.bandwidth),),
    "pcie_link_width": only("pcie_link_width"),
    "pcie_link_speed": (special("pcie_link_generation", values.speed_in_tenths),),
    "voltage_gfx": only("voltage_volts", "graphics"),
    "voltage_soc": only("voltage_volts", "soc"),
    "voltage_mem": only("voltage_volts", "memory"),
    "current_fan_speed": only("fan_rpm"),
}
# Of --showmetrics, known and without a metric.
QUIET = (
    r"metric version and size|system_clock_counter|firmware_timestamp|xgmi_.{1,40}|num_partition"
    r"|average_[a-z0-9_]{1,40}|current_[a-z0-9_]{1,40}|pcie_[a-z0-9_]{1,60}"
    r"|[a-z0-9_]{1,60}_acc|gfxclk_lock_status|xcp_stats.{0,60}|accumulation_counter|vram_max_bandwidth"
)
SENSOR = re.compile(r"temperature_([a-z0-9_]{1,20})\Z")

_MOST_STACKS = 16
# A row of the table of hy-smi --showrasinfo: `Block umc is: ENABLED (ue: 0, ce: 3)`.
_BLOCK_COUNTS = re.compile(
    r"Block ([A-Za-z0-9_]{2,16}) is: {0,4}([A-Za-z]{2,16}) {0,4}\(ue: {0,4}([0-9]{1,20}), {0,4}ce: {0,4}([0-9]{1,20})\)\s{0,8}\Z"
)
_BLOCK = re.compile(r"Block ([A-Za-z0-9_]{2,16}) is\Z")


def pieces_of(key: str, text: str) -> tuple[tuple[str, str], ...]:
    """The key and its text, or several pairs in its place: for the counts of a block, for each stack of memory."""
    counts = _BLOCK_COUNTS.match(f"{key}: {text}")
    if counts is not None:
        name = f"{counts[1]} RAS"
        return (name, counts[2]), (f"{name} uncorrectable", counts[3]), (f"{name} correctable", counts[4])
    block = _BLOCK.match(key)
    if block is not None and "(" in text:
        # Counts that are not whole are none, and become problems.
        return (f"{block[1]} RAS uncorrectable", text), (f"{block[1]} RAS correctable", text)
    stacks = values.items_of(text) if key.lower().startswith("temperature_hbm") else None
    if stacks is None:
        return ((key, text),)
    numbered = enumerate(stacks[:_MOST_STACKS])
    return tuple((key.lower().replace("hbm", f"hbm{number}", 1), stack) for number, stack in numbered)
