"""Reads the table of calls that tests/nvml_fake/tally.c keeps in a file that all processes share."""

from __future__ import annotations

import struct
from pathlib import Path

ANY = "*"
# As in tests/nvml_fake/tally.h.
_GPUS, _PLACES_OF_GPU = 64, 8
_HEAD = struct.Struct("56sQ")
_COUNT = struct.Struct("Q")
_RECORD_BYTES = _HEAD.size + (2 + _GPUS * _PLACES_OF_GPU) * _COUNT.size
_NAMED = 2


def made(path: Path, where: str) -> dict[str, int]:
    """How often each call was made at the place, by name; the sum of all under "*"."""
    content = path.read_bytes() if path.exists() else b""  # none has been made yet
    found = {}
    for start in range(0, len(content) - _RECORD_BYTES + 1, _RECORD_BYTES):
        name, state = _HEAD.unpack_from(content, start)
        (count,) = _COUNT.unpack_from(content, start + _HEAD.size + slot_of(where) * _COUNT.size)
        if state == _NAMED and count:
            found[name.rstrip(b"\0").decode("ascii")] = count
    return found


def slot_of(where: str) -> int:
    """The column of a place: everywhere, calls without a device, then for each GPU itself and its MIG devices."""
    if where == "*":
        return 0
    if where == "node":
        return 1
    gpu, _, mig = where.partition("/")
    return 2 + int(gpu) * _PLACES_OF_GPU + (int(mig) + 1 if mig else 0)
