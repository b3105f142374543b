"""Keeps unused imports of libraries out of the daemon: 8 MiB of 36.

asyncio works without ssl; `web/access/tls.py` uses the real ssl once TLS is configured. APScheduler looks for
plugins, knows time zones by name and can run jobs in processes, but receives triggers, executors and a time zone as
objects here. While the two are imported they find stand-ins. Afterwards such an import gets the real module.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from inspect import iscoroutinefunction
from types import ModuleType
from typing import NoReturn


class _PackageNotFoundError(Exception):
    """The exception that APScheduler expects if its version is unknown."""


class _Unused:
    """A stand-in for an imported class that is never instantiated."""

    def __init__(self) -> None:
        raise NotImplementedError("the daemon does not use this: service/unused_imports.py replaces it")


def _no_version(name: str) -> NoReturn:
    raise _PackageNotFoundError(name)


def _no_entry_points(**_wanted: str) -> tuple[()]:
    return ()


StandIns = Mapping[str, Mapping[str, object] | None]
# The names that APScheduler 3.11 imports from each module. None: the module does not exist.
_STAND_INS: StandIns = {
    "ssl": None,
    "importlib.metadata": {
        "PackageNotFoundError": _PackageNotFoundError,
        "version": _no_version,
        "entry_points": _no_entry_points,
    },
    "multiprocessing": {},
    "concurrent.futures.process": {"BrokenProcessPool": type("BrokenProcessPool", (Exception,), {})},
    "tzlocal": {"get_localzone": _Unused},
    "zoneinfo": {"ZoneInfo": _Unused},
}
# A command that serves nothing needs no event loop.
WITHOUT_ASYNCIO: StandIns = {**_STAND_INS, "asyncio": {"iscoroutinefunction": iscoroutinefunction}}


@contextmanager
def left_out(stand_ins: StandIns = _STAND_INS) -> Iterator[None]:
    """Within this context, unused imports find their stand-ins; modules imported before are unchanged."""
    placed = {name: _module(name, content) for name, content in stand_ins.items() if name not in sys.modules}
    sys.modules.update(placed)  # type: ignore[arg-type]  # None is the documented way to say that there is no module
    try:
        yield
    finally:
        for name in placed:
            sys.modules.pop(name, None)


def _module(name: str, content: Mapping[str, object] | None) -> ModuleType | None:
    if content is None:
        return None
    module = ModuleType(name)
    vars(module).update(content)
    return module
