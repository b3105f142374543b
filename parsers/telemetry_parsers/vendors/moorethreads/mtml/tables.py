"""What each call of MTML gives: its metric, its label, and the factor to the base unit."""

from __future__ import annotations

from collections.abc import Mapping

from telemetry_parsers.library_answers.answers import RecordedLibrary
from telemetry_parsers.library_answers.readings import Row
from telemetry_parsers.model import Absent
from telemetry_parsers.vendors.moorethreads import VENDOR

_MHZ = 1_000_000


def _clocks(call: str, metric: str) -> dict[str, tuple[Row, ...]]:
    domains = (("Gpu", "graphics"), ("Memory", "memory"), ("Vpu", "video"))
    return {f"{owner}{call}": (Row(metric, domain, times=_MHZ),) for owner, domain in domains}


CALLS: Mapping[str, tuple[Row, ...]] = {
    "DevicePowerUsage": (Row("power_watts", over=1000),),
    "GpuUtilization": (Row("utilization_ratio", over=100),),
    "GpuTemperature": (Row("temperature_celsius", "core"),),
    "MemoryUsed": (Row("memory_used_bytes"),),
    "MemoryTotal": (Row("memory_total_bytes"),),
    **_clocks("Clock", "clock_hertz"),
    **_clocks("MaxClock", "clock_max_hertz"),
    "DevicePciInfo": (
        Row("pcie_link_generation", part="pciCurGen"),
        Row("pcie_link_generation_max", part="pciMaxGen"),
        Row("pcie_link_width", part="pciCurWidth"),
        Row("pcie_link_width_max", part="pciMaxWidth"),
    ),
    "VpuUtilization": (
        Row("engine_utilization_ratio", "encoder", over=100, part="encUtil"),
        Row("engine_utilization_ratio", "decoder", over=100, part="decUtil"),
    ),
    "MemoryEccMode": (Row("ecc_enabled", part=0),),
    "MemoryEccErrorCounter.0.0.1": (Row("ecc_corrected_total", "dram"),),
    "MemoryEccErrorCounter.1.0.1": (Row("ecc_uncorrected_total", "dram"),),
    "MemoryEccErrorCounter.0.1.1": (Row("ecc_corrected_lifetime_total", "dram"),),
    "MemoryEccErrorCounter.1.1.1": (Row("ecc_uncorrected_lifetime_total", "dram"),),
    "MemoryRetiredPagesCount": (
        Row("retired_pages", "single_bit_ecc", part="sbeCount"),
        Row("retired_pages", "double_bit_ecc", part="dbeCount"),
    ),
    "MemoryRetiredPagesPendingStatus": (Row("retired_pages_pending"),),
}
FAN_CALLS = "DeviceFanSpeed."
FAN = Row("fan_ratio", over=100)
LINK_CALLS = "DeviceMtLinkState."
# A link that runs slower than it could is up.
LINK_STATES: Mapping[int, float] = {0: 0.0, 1: 1.0, 2: 1.0}
LINK_DOWNGRADED = 2
QUIET = frozenset({"DeviceMtBiosVersion", "DeviceProperty"})
GIVES = tuple(dict.fromkeys((*(row.metric for rows in CALLS.values() for row in rows), "fan_ratio", "link_up")))

DEVICE_TYPES: Mapping[int, str] = {1: "MPC Parent", 2: "MPC Instance"}
GUEST = 2
ANSWERS: Mapping[int, str] = {0: "NO", 1: "YES"}
_REASONS: Mapping[int, Absent] = {
    -1: Absent.NOT_UNDERSTOOD,  # the reader's own: the library's text was none
    3: Absent.NOT_SUPPORTED,
    4: Absent.NOT_SUPPORTED,
    5: Absent.NOT_PERMITTED,
    7: Absent.NOT_REPORTED,
    11: Absent.NOT_REPORTED,
    12: Absent.NOT_REPORTED,
    667: Absent.NOT_SUPPORTED,
}
MTML = RecordedLibrary("MTML", "mtml", VENDOR.word, devices="cards", most=1024, reasons=_REASONS)
