"""Spares the worker ctypes.util, of which pynvml imports a function that it calls on Windows only.

With ctypes.util come subprocess, tempfile, random and lzma: 1 MiB. Whoever calls the function gets what the real one says.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

_UTIL = "ctypes.util"


def find_library(name: str) -> str | None:
    """What ctypes.util says, imported now."""
    from ctypes import util

    return util.find_library(name)


@contextmanager
def late() -> Iterator[None]:
    """Within it `from ctypes.util import find_library` gives ours; afterwards ctypes.util is the real module for everybody."""
    if _UTIL in sys.modules:
        yield
        return
    stand_in = ModuleType(_UTIL)
    vars(stand_in)["find_library"] = find_library
    sys.modules[_UTIL] = stand_in
    try:
        yield
    finally:
        del sys.modules[_UTIL]
