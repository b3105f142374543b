"""Tables of the calls that each tier makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from telemetry_daemon.readers.binding import members_converter, normalize_bus_id, to_plain
from telemetry_parsers.typing_names import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

# Maps a part of a card to the calls that create and free its handle.
PARTS: Mapping[str, tuple[str, str]] = {
    "gpu": ("mtmlDeviceInitGpu", "mtmlDeviceFreeGpu"),
    "memory": ("mtmlDeviceInitMemory", "mtmlDeviceFreeMemory"),
    "vpu": ("mtmlDeviceInitVpu", "mtmlDeviceFreeVpu"),
}
# Volatile errors are counted since the driver was loaded, aggregate errors over the card's lifetime.
_VOLATILE, _AGGREGATE, _DRAM = 0, 1, 1


class Call:
    """A pymtml function to call for a card or a part of it."""

    def __init__(
        self, key: str, function: str, part: str, arguments: tuple[int, ...], convert: Callable[[Any], Plain]
    ) -> None:
        self.key, self.function, self.part = key, function, part
        self.arguments, self.convert = arguments, convert


def _call(part: str, name: str, *arguments: int, convert: Callable[[Any], Plain] = to_plain) -> Call:
    """Return the call `mtml<Part>Get<Name>`."""
    prefix = part.capitalize() or "Device"
    key = ".".join((prefix + name, *map(str, arguments)))
    return Call(key, f"mtml{prefix}Get{name}", part, arguments, convert)


_PCI_LINK = members_converter("pciMaxGen", "pciCurGen", "pciMaxWidth", "pciCurWidth")


def _ecc_calls(counter_type: int) -> tuple[Call, ...]:
    return tuple(_call("memory", "EccErrorCounter", kind, counter_type, _DRAM) for kind in (0, 1))


UUID = _call("", "UUID")
BUS_ID = _call("", "PciInfo", convert=lambda pci: normalize_bus_id(pci.sbdf))
IDENTITY = (_call("", "Name"), UUID, _call("", "SerialNumber"), BUS_ID)
PROPERTY = _call("", "Property", convert=members_converter("virtRole", "mpcCap", "mpcType"))
FAST = (
    _call("", "PowerUsage"),
    _call("gpu", "Utilization"),
    _call("gpu", "Temperature"),
    _call("gpu", "Clock"),
    _call("memory", "Used"),
    _call("memory", "Total"),
    _call("memory", "Clock"),
)
SLOW = (
    _call("", "PciInfo", convert=_PCI_LINK),
    _call("vpu", "Utilization", convert=members_converter("encUtil", "decUtil")),
    _call("vpu", "Clock"),
    _call("memory", "EccMode"),
    *_ecc_calls(_VOLATILE),
    _call("memory", "RetiredPagesCount", convert=members_converter("sbeCount", "dbeCount")),
    _call("memory", "RetiredPagesPendingStatus"),
)
INVENTORY = (
    *_ecc_calls(_AGGREGATE),
    _call("gpu", "MaxClock"),
    _call("memory", "MaxClock"),
    _call("vpu", "MaxClock"),
    _call("", "MtBiosVersion"),
    PROPERTY,
)
FAN_COUNT = Call("DeviceCountFan", "mtmlDeviceCountFan", "", (), to_plain)
LINK_COUNT = _call("", "MtLinkSpec", convert=lambda spec: int(spec.linkNum))
INSTANCE_COUNT = Call("DeviceCountMpcInstances", "mtmlDeviceCountMpcInstances", "", (), to_plain)


def fan_speed(fan: int) -> Call:
    """Return the call for the speed of one fan."""
    return _call("", "FanSpeed", fan)


def link_state(link: int) -> Call:
    """Return the call for the state of one MTLink."""
    return _call("", "MtLinkState", link)
