"""The daemon's memory settings: memory used once is returned to the system, and garbage collection is rare."""

from __future__ import annotations

import ctypes
import gc

# mallopt(3) of the GNU C library.
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_LARGE_BYTES = 128 << 10
# A poll of 128 cards creates 14,000 objects that live until the next poll.
_NEW_OBJECTS = 20_000
_LIBC = ctypes.CDLL(None)


def give_large_blocks_back() -> None:
    """Have large blocks mapped separately: otherwise glibc keeps 17 MiB permanently after a tool with endless output."""
    _call_c_library("mallopt", _M_MMAP_THRESHOLD, _LARGE_BYTES)


def share_one_heap() -> None:
    """Have all threads allocate from one heap: 0.3 MiB less with eight cards, and Python runs one thread at a time."""
    _call_c_library("mallopt", _M_ARENA_MAX, 1)


def look_for_garbage_seldom() -> None:
    """Collect garbage after 20,000 new objects: collections took a sixth of the CPU with 128 cards (`benchmarks/growth.py`)."""
    _, second, third = gc.get_threshold()
    gc.set_threshold(_NEW_OBJECTS, second, third)


def give_free_pages_back() -> None:
    """Have the C library unmap free pages between blocks: 0.7 MiB after the start, 0.4 every 10 s, in 0.2 ms."""
    _call_c_library("malloc_trim", 0)


def _call_c_library(name: str, *arguments: int) -> None:
    """Call a function of the C library if it exists. musl does not have these functions."""
    function = getattr(_LIBC, name, None)
    if function is not None:
        function(*arguments)
