"""Reduces the memory of the process with settings of glibc and of the garbage collector."""

from __future__ import annotations

import ctypes
import gc

# Parameters of mallopt(3) in glibc.
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_LARGE_BYTES = 128 << 10
# More than the 14,000 objects that a poll of 128 cards creates and that live until the next poll.
_GC_THRESHOLD = 20_000
_LIBC = ctypes.CDLL(None)


def return_large_blocks() -> None:
    """Make glibc return large blocks to the system. Otherwise it keeps 17 MiB after a tool printed endless output."""
    _call_c_library("mallopt", _M_MMAP_THRESHOLD, _LARGE_BYTES)


def use_one_heap() -> None:
    """Use one heap for all threads. This saves 0.3 MiB, and the GIL runs one thread at a time anyway."""
    _call_c_library("mallopt", _M_ARENA_MAX, 1)


def collect_garbage_less_often() -> None:
    """Collect garbage less often. By default, it takes a sixth of the CPU time with 128 cards (`benchmarks/growth.py`)."""
    _, threshold1, threshold2 = gc.get_threshold()
    gc.set_threshold(_GC_THRESHOLD, threshold1, threshold2)


def return_free_pages() -> None:
    """Make glibc return free pages to the system: 0.7 MiB after the start, and 0.4 MiB every 10 s."""
    _call_c_library("malloc_trim", 0)


def _call_c_library(name: str, *arguments: int) -> None:
    """Call a function of the C library if it exists. musl does not have these functions."""
    function = getattr(_LIBC, name, None)
    if function is not None:
        function(*arguments)
