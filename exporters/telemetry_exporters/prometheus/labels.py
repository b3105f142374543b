"""The labels of a device's series: its identity, and other facts for accelerator_info."""

from __future__ import annotations

import re

from telemetry_exporters.snapshot_filter import IDENTITY_LABELS
from telemetry_parsers.merge.ranks import SERVER_FACT
from telemetry_parsers.model import MergedDevice

Labels = tuple[tuple[str, str], ...]
_NOT_IN_LABEL_NAME = re.compile(r"[^a-z0-9_]+")
# Prometheus sets job and instance.
_TAKEN_LABELS = frozenset({*IDENTITY_LABELS, "job", "instance"})


def identity_labels(device: MergedDevice) -> Labels:
    """Return the labels of every series of a device, which are fixed when it is first published."""
    return (("vendor", device.vendor), ("device", device.device), ("id", device.id), ("model", device.model))


def info_labels(device: MergedDevice) -> Labels:
    """Return the additional labels of accelerator_info; unknown facts have none."""
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
            continue  # a label of the rank's series
        labels.setdefault(_NOT_IN_LABEL_NAME.sub("_", name.lower()), value)
    usable = ((name, value) for name, value in labels.items() if name[:1].isalpha() and name not in _TAKEN_LABELS)
    return tuple((name, value) for name, value in usable if value)
