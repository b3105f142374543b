"""Tables of the calls that each tier makes, with fallbacks for old drivers."""

from __future__ import annotations

from collections.abc import Callable

from telemetry_daemon.readers.binding import members_converter, normalize_bus_id, to_plain
from telemetry_daemon.readers.nvml import codes
from telemetry_daemon.readers.nvml.fields import driver_version
from telemetry_parsers.typing_names import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

# sizeof(nvmlMemory_v2_t) | 2 << 24. Versions of pynvml name this constant differently.
_MEMORY_V2 = 0x02000028


def _bar1_to_dict(info: Any) -> Plain:
    """Return the total, free and used size of BAR1, the memory that the host can access."""
    return {"total": int(info.bar1Total), "free": int(info.bar1Free), "used": int(info.bar1Used)}


class Call:
    """A call to `nvmlDeviceGet<name>`."""

    def __init__(
        self,
        name: str,
        *arguments: int,
        key: str = "",
        convert: Callable[[Any], Plain] = to_plain,
        fallback: Call | None = None,
        disabling_errors: frozenset[int] = codes.DISABLING_ERRORS,
    ) -> None:
        self.key = key or ".".join((name, *map(str, arguments)))
        self.function, self.arguments, self.convert = f"nvmlDeviceGet{name}", arguments, convert
        # After a disabling error, the call is not repeated.
        self.fallback, self.disabling_errors = fallback, disabling_errors


def _optional_call(name: str, *arguments: int) -> Call:
    return Call(name, *arguments, disabling_errors=codes.FIELD_DISABLING_ERRORS)


_MEMORY = Call(
    "MemoryInfo",
    _MEMORY_V2,
    key="MemoryInfo_v2",
    convert=members_converter("total", "reserved", "free", "used"),
    fallback=Call("MemoryInfo", convert=members_converter("total", "free", "used")),
)
_TEMPERATURE = Call("TemperatureV", 0, fallback=Call("Temperature", 0))
# Driver 615 introduced the sensor of the GPU's hottest part.
_HOTTEST = _optional_call("TemperatureV", 1)
_HOTTEST_SINCE = (615, 0)
_CLOCK_REASONS = Call("CurrentClocksEventReasons", fallback=Call("CurrentClocksThrottleReasons"))
_FAN_SPEED = Call("FanSpeed")

SUPPORTED_REASONS = Call("SupportedClocksEventReasons", fallback=Call("SupportedClocksThrottleReasons"))
MIG_MODE = Call("MigMode")
COMPUTE_CAPABILITY = Call("CudaComputeCapability")
# Drivers before 525 and cards up to A100 do not support the power fields.
POWER_USAGE = Call("PowerUsage")
UUID = Call("UUID")
PCI_INFO = Call("PciInfo", convert=lambda pci: normalize_bus_id(pci.busId))
PERSISTENT_NAMES = (Call("Name"), UUID, Call("Serial"))
# ECC counters since the driver was loaded, and over the GPU's lifetime.
_VOLATILE, _AGGREGATE = 0, 1


def _ecc_calls(counter_type: int) -> tuple[Call, ...]:
    return tuple(Call("MemoryErrorCounter", kind, counter_type, location) for kind in (0, 1) for location in (2, 7))


_FAST = (
    Call("UtilizationRates", convert=members_converter("gpu", "memory")),
    _MEMORY,
    _TEMPERATURE,
    Call("ClockInfo", 1),
    Call("ClockInfo", 2),
    _CLOCK_REASONS,
    Call("PerformanceState"),
)
# Other values of a MIG instance are read from its GPU.
INSTANCE_FAST = (_MEMORY,)
SLOW = (
    Call("ClockInfo", 0),
    Call("ClockInfo", 3),
    Call("MarginTemperature"),
    Call("BAR1MemoryInfo", convert=_bar1_to_dict),
    Call("CurrPcieLinkGeneration"),
    Call("CurrPcieLinkWidth"),
    Call("EncoderUtilization"),
    Call("DecoderUtilization"),
    Call("JpgUtilization"),
    Call("OfaUtilization"),
    *_ecc_calls(_VOLATILE),
)
# Used only if the limit fields are not supported.
LIMITS = (Call("EnforcedPowerLimit"), Call("PowerManagementDefaultLimit"), Call("PowerManagementLimitConstraints"))
INVENTORY = (
    *(Call("TemperatureThreshold", kind) for kind in (0, 1, 2)),
    *(Call("MaxClockInfo", domain) for domain in (0, 1, 2, 3)),
    Call("MaxPcieLinkGeneration"),
    Call("MaxPcieLinkWidth"),
    Call("EccMode"),
    *_ecc_calls(_AGGREGATE),
    Call("PersistenceMode"),
    Call("ComputeMode"),
    Call("MinorNumber"),
    Call("NumaNodeId"),
    # The nearest NUMA nodes of the host, as a bit mask of one word.
    Call("MemoryAffinity", 1, 0, convert=list),
    Call("Architecture"),
    Call("BoardPartNumber"),
    Call("VbiosVersion"),
    Call("GspFirmwareVersion"),
    Call("ModuleId"),
    Call("AddressingMode"),
)
INSTANCE_INVENTORY = (Call("Attributes_v2", convert=members_converter("multiprocessorCount", "memorySizeMB")),)
FAN_COUNT = Call("NumFans")


def fast_calls(driver: str) -> tuple[Call, ...]:
    """Return the calls of a fast poll for this driver version."""
    return (*_FAST, _HOTTEST) if driver_version(driver) >= _HOTTEST_SINCE else _FAST


def fan_speed(fan: int) -> Call:
    """Return the call for a fan's speed, with a fallback for old drivers."""
    return Call("FanSpeed_v2", fan, fallback=_FAN_SPEED if fan == 0 else None)


def link_state(link: int) -> Call:
    """Return the call for the state of a link."""
    return _optional_call("NvLinkState", link)


def link_errors(link: int, counter: int) -> Call:
    """Return the call for a link's replays (0), recoveries (1) or invalid flits (2)."""
    return _optional_call("NvLinkErrorCounter", link, counter)
