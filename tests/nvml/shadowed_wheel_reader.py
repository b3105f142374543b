"""The reader `nvml` where an old package `pynvml` lies before the module: its functions, and nothing private."""

from __future__ import annotations

import sys
from types import ModuleType

import pynvml

from telemetry_daemon.readers.nvml.reader import NvmlReader

shadow = ModuleType("pynvml")
shadow.__dict__.update({name: value for name, value in vars(pynvml).items() if not name.startswith("_")})
sys.modules["pynvml"] = shadow
READER = NvmlReader()
