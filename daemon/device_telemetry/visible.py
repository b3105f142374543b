"""Finds the devices that this program may use, from environment variables such as CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from device_telemetry.node_types import Device

# For each vendor, only the first variable that is set is used.
_VARIABLES_BY_VENDOR: Mapping[str, tuple[str, ...]] = {
    "nvidia": ("CUDA_VISIBLE_DEVICES",),
    "amd": ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
    "hygon": ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
    "moorethreads": ("MUSA_VISIBLE_DEVICES",),
    "ascend": ("ASCEND_RT_VISIBLE_DEVICES", "ASCEND_VISIBLE_DEVICES"),
    "iluvatar": ("CUDA_VISIBLE_DEVICES",),
}


def visible(devices: Iterable[Device], environment: Mapping[str, str] = os.environ) -> tuple[Device, ...]:
    """Return the devices that this program may use."""
    return tuple(device for _, device in named_visible_devices(devices, environment))


def named_visible_devices(devices: Iterable[Device], environment: Mapping[str, str]) -> tuple[tuple[str, Device], ...]:
    """Return (name, device) for each device that this program may use."""
    devices_by_vendor: dict[str, list[Device]] = {}
    for device in devices:
        devices_by_vendor.setdefault(device.vendor, []).append(device)
    groups = devices_by_vendor.items()
    return tuple(pair for vendor, group in groups for pair in _name_devices(vendor, group, environment))


def _name_devices(vendor: str, devices: list[Device], environment: Mapping[str, str]) -> list[tuple[str, Device]]:
    selection = next((environment[name] for name in _VARIABLES_BY_VENDOR.get(vendor, ()) if name in environment), None)
    if selection is None:
        return [(device.device, device) for device in devices]
    named_devices: list[tuple[str, Device]] = []
    for entry in filter(None, (part.strip() for part in selection.split(","))):
        device = _find_device(entry, devices)
        if device is None:  # as in CUDA, an invalid entry hides the entries after it
            break
        named_devices.append((str(len(named_devices)), device))  # programs number the visible devices from 0
    return named_devices


def _find_device(entry: str, devices: list[Device]) -> Device | None:
    """Return the device with this index or unique UUID prefix, or None."""
    if entry.isascii() and entry.isdecimal():
        cards = [device for device in devices if device.parent is None]
        return next((device for device in cards if device.index == int(entry)), None)
    matches = [device for device in devices if device.uuid and device.uuid.lower().startswith(entry.lower())]
    return matches[0] if len(matches) == 1 else None
