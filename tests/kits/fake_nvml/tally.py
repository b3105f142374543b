"""Reads the table of calls that tests/nvml_fake/tally.c keeps in a file that all processes share."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

ANY = "*"
# As in tests/nvml_fake/tally.h.
_GPUS, _PLACES_OF_GPU = 16, 8
_NAME_BYTES = 56
_RECORD = struct.Struct(f"{_NAME_BYTES}sQ{2 + _GPUS * _PLACES_OF_GPU}Q")
_NAMED = 2


class Tally:
    """How often each call was made, for all places and for each."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def count(self, call: str, where: str) -> int:
        """How often the call was made at the place; 0 for one that nobody made."""
        return self.counts(where).get(call, 0)

    def counts(self, where: str) -> dict[str, int]:
        """All calls that were made at the place, by name; the sum of all under "*"."""
        slot = slot_of(where)
        return {name: counts[slot] for name, counts in self._records() if counts[slot]}

    def _records(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:  # no call has been made yet
            return
        whole = len(content) - len(content) % _RECORD.size
        for name, state, *counts in _RECORD.iter_unpack(content[:whole]):
            if state == _NAMED:
                yield name.rstrip(b"\0").decode("ascii"), tuple(counts)


def slot_of(where: str) -> int:
    """The column of a place: everywhere, calls without a device, then for each GPU itself and its MIG devices."""
    if where == "*":
        return 0
    if where == "node":
        return 1
    gpu, _, mig = where.partition("/")
    return 2 + int(gpu) * _PLACES_OF_GPU + (int(mig) + 1 if mig else 0)
