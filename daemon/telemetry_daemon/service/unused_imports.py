"""Replaces modules that asyncio and APScheduler do not need, which saves 8 of 36 MiB."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from inspect import iscoroutinefunction
from types import ModuleType
from typing import NoReturn


class _PackageNotFoundError(Exception):
    """The stand-in for an exception that APScheduler catches."""


class _Unused:
    """A stand-in for a class that is imported but never instantiated."""

    def __init__(self) -> None:
        raise NotImplementedError("the daemon does not need this class; see service/unused_imports.py")


def _no_version(name: str) -> NoReturn:
    raise _PackageNotFoundError(name)


def _no_entry_points(**_wanted: str) -> tuple[()]:
    return ()


StandIns = Mapping[str, Mapping[str, object] | None]
# Maps a module to the names that APScheduler and asyncio import. None prevents the import.
_STAND_INS: StandIns = {
    "ssl": None,
    "asyncio.sslproto": {},
    "importlib.metadata": {
        "PackageNotFoundError": _PackageNotFoundError,
        "version": _no_version,
        "entry_points": _no_entry_points,
    },
    "multiprocessing": {},
    "concurrent.futures.process": {"BrokenProcessPool": type("BrokenProcessPool", (Exception,), {})},
    "random": {},
    "tzlocal": {"get_localzone": _Unused},
    "uuid": {"uuid4": _Unused},
    "zoneinfo": {"ZoneInfo": _Unused},
}
# Commands without an event loop use these stand-ins.
WITHOUT_ASYNCIO: StandIns = {**_STAND_INS, "asyncio": {"iscoroutinefunction": iscoroutinefunction}}


@contextmanager
def replace_unused_imports(stand_ins: StandIns = _STAND_INS) -> Iterator[None]:
    """Replace unused modules with stand-ins during the `with` block."""
    inserted = {name: _create_module(name, content) for name, content in stand_ins.items() if name not in sys.modules}
    sys.modules.update(inserted)  # type: ignore[arg-type]  # None is the documented marker for a missing module
    try:
        yield
    finally:
        for name in inserted:
            sys.modules.pop(name, None)


def _create_module(name: str, content: Mapping[str, object] | None) -> ModuleType | None:
    if content is None:
        return None
    module = ModuleType(name)
    vars(module).update(content)
    return module
