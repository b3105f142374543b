"""Tables of the calls of each tier, on a card and on its GPU, memory and video unit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from telemetry_daemon.readers.binding import bus_id, members, to_plain

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

# For each part of a card: the calls that create and free its handle.
PARTS: Mapping[str, tuple[str, str]] = {
    "gpu": ("mtmlDeviceInitGpu", "mtmlDeviceFreeGpu"),
    "memory": ("mtmlDeviceInitMemory", "mtmlDeviceFreeMemory"),
    "vpu": ("mtmlDeviceInitVpu", "mtmlDeviceFreeVpu"),
}
# The kinds of error counters, each since the driver was loaded and over the card's lifetime.
_VOLATILE, _AGGREGATE, _DRAM = 0, 1, 1


class Call(NamedTuple):
    """A function of pymtml with its arguments after the handle. `part` names the handle; an empty name is the card's handle."""

    key: str
    function: str
    part: str = ""
    arguments: tuple[int, ...] = ()
    plain: Callable[[Any], Plain] = to_plain


def _call(part: str, name: str, *arguments: int, plain: Callable[[Any], Plain] = to_plain) -> Call:
    """Return the call `mtml<Part>Get<Name>`. Its key consists of the part, name and arguments."""
    owner = part.capitalize() or "Device"
    key = ".".join((owner + name, *map(str, arguments)))
    return Call(key, f"mtml{owner}Get{name}", part, arguments, plain)


_PCI = members("pciMaxGen", "pciCurGen", "pciMaxWidth", "pciCurWidth")


def _ecc_counters(span: int) -> tuple[Call, ...]:
    return tuple(_call("memory", "EccErrorCounter", kind, span, _DRAM) for kind in (0, 1))


UUID = _call("", "UUID")
NAMES = (_call("", "Name"), UUID, _call("", "SerialNumber"), _call("", "PciInfo", plain=lambda pci: bus_id(pci.sbdf)))
PROPERTY = _call("", "Property", plain=members("virtRole", "mpcCap", "mpcType"))
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
    _call("", "PciInfo", plain=_PCI),
    _call("vpu", "Utilization", plain=members("encUtil", "decUtil")),
    _call("vpu", "Clock"),
    _call("memory", "EccMode"),
    *_ecc_counters(_VOLATILE),
    _call("memory", "RetiredPagesCount", plain=members("sbeCount", "dbeCount")),
    _call("memory", "RetiredPagesPendingStatus"),
)
INVENTORY = (
    *_ecc_counters(_AGGREGATE),
    _call("gpu", "MaxClock"),
    _call("memory", "MaxClock"),
    _call("vpu", "MaxClock"),
    _call("", "MtBiosVersion"),
    PROPERTY,
)
NUMBER_OF_FANS = Call("DeviceCountFan", "mtmlDeviceCountFan")
NUMBER_OF_LINKS = _call("", "MtLinkSpec", plain=lambda found: int(found.linkNum))
NUMBER_OF_INSTANCES = Call("DeviceCountMpcInstances", "mtmlDeviceCountMpcInstances")


def fan_speed(fan: int) -> Call:
    """Return the call for the speed of one fan."""
    return _call("", "FanSpeed", fan)


def link_state(link: int) -> Call:
    """Return the call for the state of one MTLink."""
    return _call("", "MtLinkState", link)
