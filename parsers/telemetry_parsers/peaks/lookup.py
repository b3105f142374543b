"""The peak of a device: that of its model, and which part of it a partition has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from telemetry_parsers.peaks.peak import Peak, Rate
from telemetry_parsers.peaks.table import PER_UNIT, ROWS, Row

# The vendor calls a memory slice of MIG "roughly one eighth of the total GPU memory resources, including both capacity and
# bandwidth" (MIG user guide, Concepts). A compute instance (1c.3g.40gb) shares its slices with others: its profile does not match.
_MIG_PROFILE = re.compile(r"[0-9]g\.([0-9]+)gb(?:[+-][a-z.]+)?\Z")
_MIG_SLICES = 8
_GIBIBYTE = 2.0**30
# An AMD card all of which is one device.
_UNDIVIDED = frozenset({"", "SPX", "N/A"})


class Part(NamedTuple):
    """What is told of how a device is cut: `units` are its own compute units, `model_units` those of an uncut card.

    `profile` is that of a MIG instance, `card_memory_bytes` all memory of the card that it was cut from.
    """

    units: float | None
    model_units: int | None
    is_partition: bool = False
    compute_partition: str = ""
    profile: str = ""
    card_memory_bytes: float | None = None

    @property
    def is_cut(self) -> bool:
        """Whether it is not all of a card. The first partition of an AMD card stands for the card, too, and tells its own units."""
        return self.is_partition or self.compute_partition not in _UNDIVIDED


def peak_of_part(peak: Peak, part: Part) -> Peak | None:
    """The peak of what the device has of its card; None where that is unknown, or where it is not the card that it seems to be."""
    if not part.is_cut:
        return peak if None in (part.units, part.model_units) or part.units == part.model_units else None
    if part.units is None or part.model_units is None or part.units > part.model_units:
        return None
    share = part.units / part.model_units
    rates = (Rate(rate.dtype, _times(rate.flops, share), _times(rate.flops_per_cycle, share)) for rate in peak.rates)
    memory = _times(peak.memory_bytes_per_second, _memory_share(part))
    return replace(peak, rates=tuple(rates), memory_bytes_per_second=memory)


def _memory_share(part: Part) -> float | None:
    """The share that a MIG instance has of the memory slices; other partitions share all of the memory."""
    match = _MIG_PROFILE.match(part.profile)
    if match is None or not part.card_memory_bytes:
        return None
    slices = round(_MIG_SLICES * int(match[1]) * _GIBIBYTE / part.card_memory_bytes)
    return slices / _MIG_SLICES if 0 < slices <= _MIG_SLICES else None


def _times(value: float | None, share: float | None) -> float | None:
    return None if value is None or share is None else value * share


def peak_of(model: str, pci_id: str = "") -> Peak | None:
    """The peak of a whole device; None where its name and its PCI id (`1002:74a1`) are unknown, or contradict each other."""
    row = row_of(model, pci_id)
    return None if row is None else peak_of_row(row)


def row_of(model: str, pci_id: str = "") -> Row | None:
    """The row with that name, or else with that PCI id; None where there is none, or where the named card has another id."""
    named = _by_name().get(model)
    if named is None:
        return _by_pci_id().get(pci_id)
    return None if pci_id and named.pci_ids and pci_id not in named.pci_ids else named


def peak_of_row(row: Row) -> Peak:
    """The peak that the row's source quotes."""
    per_unit = PER_UNIT[row.architecture]
    rates = (Rate(dtype, quote.teraflops * 1e12, float(row.units * per_unit[dtype])) for dtype, quote in row.quoted)
    memory = row.memory_gigabytes_per_second
    return Peak(tuple(rates), None if memory is None else memory * 1e9, "vendor")


@cache
def _by_name() -> Mapping[str, Row]:
    return {name: row for row in ROWS for name in row.names}


@cache
def _by_pci_id() -> Mapping[str, Row]:
    """The rows by those PCI ids that one model alone has."""
    ids = [pci_id for row in ROWS for pci_id in row.pci_ids]
    return {pci_id: row for row in ROWS for pci_id in row.pci_ids if ids.count(pci_id) == 1}
