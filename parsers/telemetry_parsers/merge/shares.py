"""Computes the shares of a card's owners."""

from __future__ import annotations

import re
from collections.abc import Sequence

from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import MergedDevice
from telemetry_parsers.ownership import Basis, Process

# In a profile such as `1g.10gb`, `1c.3g.40gb` or `2g.20gb+me`, the compute slices precede the memory slices.
_PROFILE = re.compile(r"(?:MIG )?(?:(\d)c\.)?(\d)g\.")
# Compute slices of a whole card.
_DEFAULT_SLICES = 7
_SLICES_BY_MODEL = (("A30", 4),)


@dataclass(frozen=True, slots=True)
class Share:
    """An owner's share of a card. `basis` is the quantity that determines the share, such as `memory`."""

    fraction: float
    basis: Basis


@dataclass(frozen=True, slots=True)
class GroupUsage:
    """The memory and utilization of a group of processes on a device."""

    memory_bytes: float | None  # None if the memory of any process is unknown
    utilization_ratio: float | None

    @classmethod
    def from_processes(cls, processes: Sequence[Process]) -> GroupUsage:
        """Return the total usage of these processes."""
        memory = [process.memory_used_bytes for process in processes]
        utilization = [process.utilization_ratio for process in processes]
        return cls(_sum_if_known(memory), _sum_if_known(utilization))


def split_card(usages: Sequence[GroupUsage]) -> tuple[Share, ...]:
    """Divide a card by utilization, else by memory, else equally."""
    if len(usages) == 1:
        return (Share(1.0, "whole"),)
    utilization = _fractions_if_known([usage.utilization_ratio for usage in usages])
    if utilization is not None:
        return tuple(Share(fraction, "utilization") for fraction in utilization)
    memory = _fractions_if_known([usage.memory_bytes for usage in usages])
    if memory is not None:
        return tuple(Share(fraction, "memory") for fraction in memory)
    return tuple(Share(1.0 / len(usages), "equal") for _ in usages)


def fraction_of(partition: MergedDevice, card: MergedDevice, partition_count: int) -> float:
    """Return the partition's fraction of the card's compute slices. Without a MIG profile, all partitions are equal."""
    profile = _PROFILE.match(dict(partition.facts).get("profile", ""))
    if profile is None:
        return 1.0 / partition_count
    card_slices = next((slices for word, slices in _SLICES_BY_MODEL if word in card.model.split()), _DEFAULT_SLICES)
    return min(1.0, int(profile[1] or profile[2]) / card_slices)


def _sum_if_known(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) if len(numbers) == len(values) else None


def _fractions_if_known(values: Sequence[float | None]) -> tuple[float, ...] | None:
    numbers = [value for value in values if value is not None]
    total = sum(numbers)
    if len(numbers) < len(values) or total <= 0:
        return None
    return tuple(value / total for value in numbers)
