"""What a process holds of cards, as the kernel tells of its open files of them: the texts of /proc/PID/fdinfo/FD."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from telemetry_parsers.model import Plain

MOST_CHARACTERS = 16_384
_UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_LARGEST = 1 << 60
_BUS_ID = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
# The memory on the card: amdgpu and xe say vram, i915 local. What is resident, else the older word for it.
_MEMORY = re.compile(r"drm-(resident|memory)-((?:vram|local)\d*)")
_QUANTITY = re.compile(r"(\d{1,20})(?: ([KMG]iB|B))?")


class Client(NamedTuple):
    """One who opened a card: a file may be open several times, and forks have it, too."""

    bus_id: str
    number: str
    memory_bytes: int | None


def clients(texts: Iterable[str]) -> Iterator[Client]:
    """The clients that these texts tell of; one that is told twice comes twice."""
    for text in texts:
        fields = dict(_fields(text))
        bus_id, number = fields.get("drm-pdev", "").lower(), fields.get("drm-client-id", "")
        if _BUS_ID.fullmatch(bus_id) and number.isdecimal():
            yield Client(bus_id, number, _memory(fields))


def holds(found: Iterable[Client]) -> list[Plain]:
    """What these clients hold together of each card, where the driver tells it."""
    of_card: dict[str, int] = {}
    for client in found:
        if client.memory_bytes is not None:
            of_card[client.bus_id] = of_card.get(client.bus_id, 0) + client.memory_bytes
    return [{"bus_id": bus_id, "memory_bytes": size} for bus_id, size in of_card.items()]


def _fields(text: str) -> Iterator[tuple[str, str]]:
    for line in text[:MOST_CHARACTERS].split("\n"):
        key, colon, value = line.partition(":")
        if colon:
            yield key, value.strip()


def _memory(fields: dict[str, str]) -> int | None:
    """The bytes on the card, None where the driver does not tell them."""
    regions: dict[str, dict[str, int]] = {}
    for key, value in fields.items():
        match, quantity = _MEMORY.fullmatch(key), _QUANTITY.fullmatch(value)
        if match and quantity and (size := int(quantity[1]) * _UNITS[quantity[2] or ""]) < _LARGEST:
            regions.setdefault(match[2], {})[match[1]] = size
    sizes = [told.get("resident", told.get("memory", 0)) for told in regions.values()]
    return sum(sizes) if sizes else None
