"""Parses the results of calls of NVIDIA's library NVML, which its reader records as plain data."""

from telemetry_parsers.vendors.nvidia.nvml.parser import PARSER

__all__ = ["PARSER"]
