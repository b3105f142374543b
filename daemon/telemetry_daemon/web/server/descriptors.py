"""File descriptors: how many there may be, and how many of them connections may take."""

from __future__ import annotations

import resource
from pathlib import Path

KEPT_FREE_FOR_READERS = 64
FEWEST_CONNECTIONS = 8
# Children inherit the limit, and some vendor tools close every number up to it before they start:
# with the 2^30 of some container runtimes that takes minutes.
HIGHEST_USEFUL_LIMIT = 65536


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open files to the hard one; the limit then in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = HIGHEST_USEFUL_LIMIT if hard == resource.RLIM_INFINITY else min(hard, HIGHEST_USEFUL_LIMIT)
    if soft == resource.RLIM_INFINITY:
        return HIGHEST_USEFUL_LIMIT
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft


def connections_within(limit: int, most: int) -> int:
    """How many connections a descriptor limit leaves room for, what is open now and the readers' share taken off."""
    open_now = sum(1 for _ in Path("/proc/self/fd").iterdir())
    return max(FEWEST_CONNECTIONS, min(most, limit - open_now - KEPT_FREE_FOR_READERS))
