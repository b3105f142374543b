"""Loads a target: `package.module:attribute`, or `/folder/file.py:attribute` for a module in a file."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from telemetry_daemon.guarded.reading import read_file

_LONGEST_TEXT = 500
_LARGEST_MODULE_BYTES = 8 << 20


class BrokenProtocolError(Exception):
    """A plugin that violates the protocol; the text names each violation."""


def load(target: str) -> Any:
    """Return the object that a target names. Raises any exception of the import."""
    module, _, attribute = target.rpartition(":")
    named: Any = _module_from_file(module) if module.startswith("/") else importlib.import_module(module)
    for name in attribute.split("."):
        if not hasattr(named, name):
            raise BrokenProtocolError(f"{module} has no {attribute}")
        named = getattr(named, name)
    return named


def in_one_line(error: BaseException) -> str:
    """Return an exception in one line: its type, its text, and where it was raised."""
    try:
        words = str(error)
    except Exception:  # noqa: BLE001 # a foreign exception whose text cannot be created
        words = ""
    line = " ".join(f"{type(error).__name__}: {words}".split())[:_LONGEST_TEXT]
    trace = error.__traceback__
    if trace is None or isinstance(error, BrokenProtocolError | ImportError | SyntaxError):
        return line
    while trace.tb_next is not None:
        trace = trace.tb_next
    file_name = trace.tb_frame.f_code.co_filename.rpartition("/")[2]
    return f"{line} ({file_name} line {trace.tb_lineno})"


def _module_from_file(path: str) -> ModuleType:
    """Return the module of one file, compiled from its source: a cached .pyc beside it may have been written by any user."""
    name = "telemetry_plugin_" + path.rpartition("/")[2].removesuffix(".py")
    if name not in sys.modules:
        module = ModuleType(name)
        module.__file__ = path
        code = compile(read_file(path, _LARGEST_MODULE_BYTES), path, "exec", dont_inherit=True)
        sys.modules[name] = module
        try:
            exec(code, module.__dict__)  # noqa: S102  # running the operator's plugin is what a worker is for
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]
