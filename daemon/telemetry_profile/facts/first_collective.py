"""The first collective of a file, in which ranks wait for each other's profiler: whether it is one, and a rank's time without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

from telemetry_profile.facts.file_facts import Device, Split

_FAR_LONGER = 2
"""No collective of the same program takes so many times as long as each of the others without a reason outside it."""


def waiting_first(begins: Sequence[int], lengths: Sequence[int]) -> int | None:
    """Which of these collectives is the first and far longer than each of the others; None where that one is not."""
    if len(begins) < 2:
        return None
    first = min(range(len(begins)), key=begins.__getitem__)
    longest = max(length for number, length in enumerate(lengths) if number != first)
    return first if lengths[first] > _FAR_LONGER * longest else None


def together(one: Split, other: Split) -> Split:
    """The split of two spans as that of one; what one of them does not tell is unknown."""
    sums = {
        field.name: None if None in pair else sum(pair)
        for field in fields(Split)
        for pair in ((getattr(one, field.name), getattr(other, field.name)),)
    }
    return Split(**sums)


def rest_of(device: Device) -> Split | None:
    """The split of the time without the first collective, as far as that of all the time is told; None where nothing is left out."""
    if device.first_collective is None:
        return None
    rest = device.first_collective.rest
    unknown = {field.name: None for field in fields(Split) if getattr(device.split, field.name) is None}
    return replace(rest, **unknown)
