"""Loads the object that a target names, such as `package.module:attribute`."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from telemetry_daemon.guarded.reading import read_file
from telemetry_parsers.typing_names import Any

_MAX_TEXT_LENGTH = 500
_MAX_MODULE_BYTES = 8 << 20


class PluginProtocolError(Exception):
    """A plugin violates the plugin protocol."""


def load_target(target: str) -> Any:
    """Import and return the target. Exceptions from the import propagate."""
    module, _, attribute = target.rpartition(":")
    value: Any = _import_file(module) if module.startswith("/") else importlib.import_module(module)
    for name in attribute.split("."):
        if not hasattr(value, name):
            raise PluginProtocolError(f"{module} has no {attribute}")
        value = getattr(value, name)
    return value


def describe_error(error: BaseException) -> str:
    """Return an exception's type, text and source line as one line."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 # `__str__` of a foreign exception may fail
        text = ""
    line = " ".join(f"{type(error).__name__}: {text}".split())[:_MAX_TEXT_LENGTH]
    trace = error.__traceback__
    if trace is None or isinstance(error, PluginProtocolError | ImportError | SyntaxError):
        return line
    while trace.tb_next is not None:
        trace = trace.tb_next
    file_name = trace.tb_frame.f_code.co_filename.rpartition("/")[2]
    return f"{line} ({file_name} line {trace.tb_lineno})"


def _import_file(path: str) -> ModuleType:
    """Import a module from its source file, without any cached .pyc file."""
    name = "telemetry_plugin_" + path.rpartition("/")[2].removesuffix(".py")
    if name not in sys.modules:
        module = ModuleType(name)
        module.__file__ = path
        code = compile(read_file(path, _MAX_MODULE_BYTES), path, "exec", dont_inherit=True)
        sys.modules[name] = module
        try:
            exec(code, module.__dict__)  # noqa: S102  # the worker exists to run plugins
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]
