"""Reduces the memory of the process with settings of glibc and of the garbage collector."""

from __future__ import annotations

import ctypes
import gc

# Parameters of mallopt(3) in glibc.
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_LARGE_BYTES = 128 << 10
# A poll of 128 cards creates 14,000 objects that live until the next poll.
_GC_THRESHOLD = 20_000
_LIBC = ctypes.CDLL(None)


def return_large_blocks_to_system() -> None:
    """Make glibc return large blocks to the system."""
    _call_c_library("mallopt", _M_MMAP_THRESHOLD, _LARGE_BYTES)  # otherwise, glibc may keep 17 MiB


def use_one_heap() -> None:
    """Use one heap for all threads, which saves 0.3 MiB."""
    _call_c_library("mallopt", _M_ARENA_MAX, 1)  # the GIL runs one thread at a time anyway


def collect_garbage_less_often() -> None:
    """Collect garbage less often, to save CPU time with many cards."""
    _, threshold1, threshold2 = gc.get_threshold()
    gc.set_threshold(_GC_THRESHOLD, threshold1, threshold2)  # see benchmarks/growth.py


def return_free_pages() -> None:
    """Make glibc return free pages to the system."""
    _call_c_library("malloc_trim", 0)  # frees 0.7 MiB after the start, and 0.4 MiB every 10 s


def _call_c_library(name: str, *arguments: int) -> None:
    function = getattr(_LIBC, name, None)
    if function is not None:  # musl does not have these functions
        function(*arguments)
