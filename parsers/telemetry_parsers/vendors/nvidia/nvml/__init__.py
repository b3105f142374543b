"""Parses the results of NVML calls, which the reader `nvml` records as plain data."""

from telemetry_parsers.vendors.nvidia.nvml.parser import PARSER

__all__ = ["PARSER"]
