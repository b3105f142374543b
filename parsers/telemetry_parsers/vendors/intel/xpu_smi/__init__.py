"""Intel's xpu-smi, 1.x with its sub-commands and 2.x with a table like nvidia-smi's."""

from telemetry_parsers.vendors.intel.xpu_smi.parser import PARSER

__all__ = ["PARSER"]
