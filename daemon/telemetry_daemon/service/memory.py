"""How the running daemon keeps its memory: what was needed once goes back to the system, and garbage is looked for seldom."""

from __future__ import annotations

import ctypes
import gc

# mallopt(3) of the GNU C library.
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_LARGE_BYTES = 128 << 10
# A poll of 128 cards makes 14,000 objects that live until the next one.
_NEW_OBJECTS = 20_000
_LIBC = ctypes.CDLL(None)


def give_large_blocks_back() -> None:
    """Have every large block mapped by itself, and so unmapped when it is freed; where the C library can be told to.

    Left alone, glibc takes the size of the largest block that was ever freed for usual and keeps that much: 17 MiB
    for good after a tool that printed without end.
    """
    _tell_c_library("mallopt", _M_MMAP_THRESHOLD, _LARGE_BYTES)


def share_one_heap() -> None:
    """Have all threads allocate from one heap, so that one uses what another freed: 0.3 MiB less with eight cards.

    They hardly wait for each other: Python lets one thread run at a time.
    """
    _tell_c_library("mallopt", _M_ARENA_MAX, 1)


def look_for_garbage_seldom() -> None:
    """Have Python look for objects that hold each other after 20,000 new ones, and not after 700.

    There are hardly any, and each look goes through the readings that are there: with 128 cards that was a sixth of the daemon's CPU, and
    34 ms at a time (`benchmarks/growth.py`).
    """
    _, second, third = gc.get_threshold()
    gc.set_threshold(_NEW_OBJECTS, second, third)


def give_free_pages_back() -> None:
    """Have the C library unmap what lies free between blocks: 0.7 MiB after the start, 0.4 every 10 s, in 0.2 ms."""
    _tell_c_library("malloc_trim", 0)


def _tell_c_library(name: str, *arguments: int) -> None:
    """Call that function of the C library, where it has one: musl lacks them."""
    function = getattr(_LIBC, name, None)
    if function is not None:
        function(*arguments)
