"""The owners of cards as samples: who has which share of each, and what that has come to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from telemetry_exporters.labels import Labels, identity_labels
from telemetry_parsers.merge.owners import billed
from telemetry_parsers.metrics import OWNER_LABELS
from telemetry_parsers.model import MergedDevice, Sample
from telemetry_parsers.ownership import Allocation

_SHARE = "allocation_ratio"
# Each metric, and where its number stands in an allocation.
_NUMBERS: Mapping[str, str] = {
    "allocation_seconds_total": "seconds_total",
    "allocation_busy_seconds_total": "busy_seconds_total",
    "allocation_energy_joules_total": "energy_joules_total",
    "allocation_memory_used_bytes": "memory_used_bytes",
}
_LABELS = OWNER_LABELS["accelerator_allocation_seconds_total"]
_FIELDS: Mapping[str, str] = {"owner_kind": "kind", "owner": "name"}


def samples(devices: Sequence[MergedDevice]) -> Iterator[Sample]:
    """The samples of all owners; two whose clean names are the same count as the first of them."""
    told: set[tuple[str, Labels]] = set()
    for device, allocation in billed(devices):
        labels = (*identity_labels(device), *owner_labels(allocation))
        if (device.id, labels) in told:
            continue
        told.add((device.id, labels))
        yield Sample(_SHARE, allocation.share, (*labels, ("basis", allocation.basis)))
        for metric, field in _NUMBERS.items():
            value = getattr(allocation, field)
            if value is not None:
                yield Sample(metric, value, labels)


def owner_labels(allocation: Allocation) -> Labels:
    """The labels that tell an owner; what is not known has none."""
    texts = ((label, getattr(allocation.owner, _FIELDS.get(label, label))) for label in _LABELS)
    return tuple((label, text) for label, text in texts if text)
