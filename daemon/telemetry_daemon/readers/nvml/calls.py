"""Tables of the calls of each tier, with fallbacks for calls that a driver does not support."""

from __future__ import annotations

from collections.abc import Callable

from telemetry_daemon.readers.binding import bus_id, members_to_dict, to_plain
from telemetry_daemon.readers.nvml import codes
from telemetry_daemon.readers.nvml.fields import driver_version
from telemetry_parsers.typing_names import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

# sizeof(nvmlMemory_v2_t) | 2 << 24. The name of this constant differs between versions of pynvml, so it is copied here.
_MEMORY_V2 = 0x02000028


def _bar1_to_dict(info: Any) -> Plain:
    """Return the size and use of BAR1, through which the host and other devices access the memory."""
    return {"total": int(info.bar1Total), "free": int(info.bar1Free), "used": int(info.bar1Used)}


class Call:
    """A function of pynvml with its arguments. `key` names the result. After a disabling error, the call is not repeated."""

    def __init__(
        self,
        key: str,
        function: str,
        arguments: tuple[int, ...] = (),
        convert: Callable[[Any], Plain] = to_plain,
        fallback: Call | None = None,
        disabling_errors: frozenset[int] = codes.DISABLING_ERRORS,
    ) -> None:
        self.key, self.function, self.arguments = key, function, arguments
        self.convert, self.fallback, self.disabling_errors = convert, fallback, disabling_errors


def _call(name: str, *arguments: int, fallback: Call | None = None, convert: Callable[[Any], Plain] = to_plain) -> Call:
    """Return the call `nvmlDeviceGet<name>`. Its key consists of the name and arguments."""
    key = ".".join((name, *map(str, arguments)))
    return Call(key, f"nvmlDeviceGet{name}", arguments, convert, fallback)


def _optional_call(name: str, *arguments: int) -> Call:
    """Return a call for hardware that some GPUs do not have. Some drivers then return the error "invalid argument"."""
    call = _call(name, *arguments)
    call.disabling_errors = codes.FIELD_DISABLING_ERRORS
    return call


_MEMORY = Call(
    "MemoryInfo_v2",
    "nvmlDeviceGetMemoryInfo",
    (_MEMORY_V2,),
    members_to_dict("total", "reserved", "free", "used"),
    _call("MemoryInfo", convert=members_to_dict("total", "free", "used")),
)
_TEMPERATURE = _call("TemperatureV", 0, fallback=_call("Temperature", 0))
# The sensor of the hottest part of the GPU, and the first driver version with this sensor.
_HOTTEST = _optional_call("TemperatureV", 1)
_HOTTEST_SINCE = (615, 0)
_CLOCK_REASONS = _call("CurrentClocksEventReasons", fallback=_call("CurrentClocksThrottleReasons"))
_FAN_SPEED = _call("FanSpeed")

SUPPORTED_REASONS = _call("SupportedClocksEventReasons", fallback=_call("SupportedClocksThrottleReasons"))
MIG_MODE = _call("MigMode")
COMPUTE_CAPABILITY = _call("CudaComputeCapability")
# Used only if the power fields are not supported, as on drivers before 525, on A100 and on older cards.
POWER_USAGE = _call("PowerUsage")
UUID = _call("UUID")
PCI_INFO = _call("PciInfo", convert=lambda pci: bus_id(pci.busId))
PERSISTENT_NAMES = (_call("Name"), UUID, _call("Serial"))


def _ecc_counters(span: int) -> tuple[Call, ...]:
    """Return the calls for ECC errors in device memory (2) and SRAM (7), since driver load (span 0) or over the lifetime (1)."""
    return tuple(_call("MemoryErrorCounter", kind, span, location) for kind in (0, 1) for location in (2, 7))


_FAST = (
    _call("UtilizationRates", convert=members_to_dict("gpu", "memory")),
    _MEMORY,
    _TEMPERATURE,
    _call("ClockInfo", 1),
    _call("ClockInfo", 2),
    _CLOCK_REASONS,
    _call("PerformanceState"),
)
# The fast calls on a MIG instance. Other values are read from its GPU.
FAST_OF_INSTANCE = (_MEMORY,)
SLOW = (
    _call("ClockInfo", 0),
    _call("ClockInfo", 3),
    _call("MarginTemperature"),
    _call("BAR1MemoryInfo", convert=_bar1_to_dict),
    _call("CurrPcieLinkGeneration"),
    _call("CurrPcieLinkWidth"),
    _call("EncoderUtilization"),
    _call("DecoderUtilization"),
    _call("JpgUtilization"),
    _call("OfaUtilization"),
    *_ecc_counters(0),
)
# Used only if the limit fields are not supported.
LIMITS = (_call("EnforcedPowerLimit"), _call("PowerManagementDefaultLimit"), _call("PowerManagementLimitConstraints"))
INVENTORY = (
    *(_call("TemperatureThreshold", kind) for kind in (0, 1, 2)),
    *(_call("MaxClockInfo", domain) for domain in (0, 1, 2, 3)),
    _call("MaxPcieLinkGeneration"),
    _call("MaxPcieLinkWidth"),
    _call("EccMode"),
    *_ecc_counters(1),
    _call("PersistenceMode"),
    _call("ComputeMode"),
    _call("MinorNumber"),
    _call("NumaNodeId"),
    # The nearest NUMA nodes of the host, as a bit mask of one word.
    _call("MemoryAffinity", 1, 0, convert=list),
    _call("Architecture"),
    _call("BoardPartNumber"),
    _call("VbiosVersion"),
    _call("GspFirmwareVersion"),
    _call("ModuleId"),
    _call("AddressingMode"),
)
INVENTORY_OF_INSTANCE = (_call("Attributes_v2", convert=members_to_dict("multiprocessorCount", "memorySizeMB")),)
FAN_COUNT = _call("NumFans")


def fast_calls(driver: str) -> tuple[Call, ...]:
    """Return the calls of every fast poll."""
    return (*_FAST, _HOTTEST) if driver_version(driver) >= _HOTTEST_SINCE else _FAST


def fan_speed(fan: int) -> Call:
    """Return the call for the speed of a fan. Its fallback is for old drivers, which support one fan only."""
    return _call("FanSpeed_v2", fan, fallback=_FAN_SPEED if fan == 0 else None)


def link_state(link: int) -> Call:
    """Return the call for the state of a link."""
    return _optional_call("NvLinkState", link)


def link_errors(link: int, counter: int) -> Call:
    """Return the call for an error counter of a link: 0 for replays, 1 for recoveries, 2 for invalid flits."""
    return _optional_call("NvLinkErrorCounter", link, counter)
