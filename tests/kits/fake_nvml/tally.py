"""Read the table of call counts that tests/nvml_fake/tally.c writes to a file shared by all processes."""

import struct
from collections.abc import Iterator
from pathlib import Path

ANY = "*"
# As in tests/nvml_fake/tally.h.
_GPUS, _PLACES_OF_GPU = 64, 8
_HEAD = struct.Struct("56sQ")
_COUNT = struct.Struct("Q")
_RECORD_BYTES = _HEAD.size + (2 + _GPUS * _PLACES_OF_GPU) * _COUNT.size
_NAMED = 2


class Tally:
    def __init__(self, path: Path) -> None:
        self.path = path

    def count(self, call: str, where: str) -> int:
        """Return how often the call was made for the device."""
        return self.counts(where).get(call, 0)

    def counts(self, where: str) -> dict[str, int]:
        """Return the calls for the device by name, with their sum as "*"."""
        return {name: count for name, count in self._column(slot_of(where)) if count}

    def _column(self, slot: int) -> Iterator[tuple[str, int]]:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:  # no call has been made yet
            return
        for start in range(0, len(content) - _RECORD_BYTES + 1, _RECORD_BYTES):
            name, state = _HEAD.unpack_from(content, start)
            if state == _NAMED:
                (count,) = _COUNT.unpack_from(content, start + _HEAD.size + slot * _COUNT.size)
                yield name.rstrip(b"\0").decode(), count


def slot_of(where: str) -> int:
    """Return the column of a device: the total, calls without a device, then each GPU with its MIG devices."""
    if where == "*":
        return 0
    if where == "node":
        return 1
    gpu, _, mig = where.partition("/")
    return 2 + int(gpu) * _PLACES_OF_GPU + (int(mig) + 1 if mig else 0)
