"""Memory that was needed once goes back to the system."""

from __future__ import annotations

import ctypes

# mallopt(3) of the GNU C library.
_M_MMAP_THRESHOLD = -3
_LARGE_BYTES = 128 << 10


def give_large_blocks_back() -> None:
    """Have every large block mapped by itself, and so unmapped when it is freed; where the C library can be told to.

    Left alone, glibc takes the size of the largest block that was ever freed for usual and keeps that much: 17 MiB
    for good after a tool that printed without end.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
