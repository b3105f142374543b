"""The devices that this program may use, by the environment variables of the vendors' runtimes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from device_telemetry.node_types import Device

# The first variable that is set counts.
_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "nvidia": ("CUDA_VISIBLE_DEVICES",),
    "amd": ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
    "hygon": ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
    "moorethreads": ("MUSA_VISIBLE_DEVICES",),
    "ascend": ("ASCEND_RT_VISIBLE_DEVICES", "ASCEND_VISIBLE_DEVICES"),
    "iluvatar": ("CUDA_VISIBLE_DEVICES",),
}


def visible(devices: Iterable[Device], environment: Mapping[str, str] = os.environ) -> tuple[Device, ...]:
    """Return the devices that this program may use, in the order of the vendor's variable up to its first invalid entry; all devices without it."""
    return tuple(device for _, device in numbered(devices, environment))


def numbered(devices: Iterable[Device], environment: Mapping[str, str]) -> tuple[tuple[str, Device], ...]:
    """Return the visible devices with their numbers in this program, which counts from 0 what a variable lets it use."""
    by_vendor: dict[str, list[Device]] = {}
    for device in devices:
        by_vendor.setdefault(device.vendor, []).append(device)
    return tuple(pair for vendor, own in by_vendor.items() for pair in _of_vendor(vendor, own, environment))


def _of_vendor(vendor: str, devices: list[Device], environment: Mapping[str, str]) -> list[tuple[str, Device]]:
    entries = next((environment[name] for name in _VARIABLES.get(vendor, ()) if name in environment), None)
    if entries is None:
        return [(device.device, device) for device in devices]
    chosen: list[tuple[str, Device]] = []
    for entry in filter(None, (part.strip() for part in entries.split(","))):
        device = _named(entry, devices)
        if device is None:
            break
        chosen.append((str(len(chosen)), device))
    return chosen


def _named(entry: str, devices: list[Device]) -> Device | None:
    """Return the whole device with that number, or whose uuid begins with that text."""
    if entry.isascii() and entry.isdecimal():
        whole = [device for device in devices if device.parent is None]
        return next((device for device in whole if device.index == int(entry)), None)
    fitting = [device for device in devices if device.uuid and device.uuid.lower().startswith(entry.lower())]
    return fitting[0] if len(fitting) == 1 else None
