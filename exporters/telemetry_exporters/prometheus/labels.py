"""The labels of a device's series: those of its identity, and the further ones of accelerator_info."""

from __future__ import annotations

import re

from telemetry_exporters.snapshot_filter import IDENTITY_LABELS
from telemetry_parsers.merge.ranks import SERVER_FACT
from telemetry_parsers.model import MergedDevice

Labels = tuple[tuple[str, str], ...]
_NOT_IN_LABEL_NAME = re.compile(r"[^a-z0-9_]+")
# The scraper sets these two itself.
_TAKEN_LABELS = frozenset({*IDENTITY_LABELS, "job", "instance"})


def identity_labels(device: MergedDevice) -> Labels:
    """The labels that every series of a device has; frozen when the device was first published."""
    return (("vendor", device.vendor), ("device", device.device), ("id", device.id), ("model", device.model))


def info_labels(device: MergedDevice) -> Labels:
    """The further labels of a device on accelerator_info; what is unknown has none."""
    labels: dict[str, str | None] = {
        "uuid": device.uuid,
        "bus_id": device.bus_id,
        "serial": device.serial,
        "driver": device.driver,
        "parent": device.parent,
        "partition": device.partition,
        "model_now": device.current_model if device.current_model != device.model else None,
        "simulated": "true" if device.simulated else None,
        "replayed": "true" if device.replayed else None,
    }
    for name, value in device.facts:
        if name == SERVER_FACT:
            continue  # it belongs to the rank
        labels.setdefault(_NOT_IN_LABEL_NAME.sub("_", name.lower()), value)
    return tuple((name, value) for name, value in labels.items() if value and _is_free_label(name))


def _is_free_label(name: str) -> bool:
    return name[:1].isalpha() and name not in _TAKEN_LABELS
