"""The labels of a device's series."""

from __future__ import annotations

import re

from telemetry_exporters.snapshot_filter import IDENTITY_LABELS
from telemetry_parsers.merge.ranks import SERVER_FACT
from telemetry_parsers.model import MergedDevice

Labels = tuple[tuple[str, str], ...]
_INVALID_LABEL_CHARACTERS = re.compile(r"[^a-z0-9_]+")
# Prometheus sets `job` and `instance`.
_RESERVED_LABELS = frozenset({*IDENTITY_LABELS, "job", "instance"})


def identity_labels(device: MergedDevice) -> Labels:
    """Return the labels of a device that all its series have: `vendor`, `device`, `id` and `model`."""
    return (("vendor", device.vendor), ("device", device.device), ("id", device.id), ("model", device.model))


def info_labels(device: MergedDevice) -> Labels:
    """Return the additional labels of `accelerator_info`. Unknown facts have no label."""
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
            continue  # only the rank series has this label
        labels.setdefault(_INVALID_LABEL_CHARACTERS.sub("_", name.lower()), value)
    usable = ((name, value) for name, value in labels.items() if name[:1].isalpha() and name not in _RESERVED_LABELS)
    return tuple((name, value) for name, value in usable if value)
