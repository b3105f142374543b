"""Parses the answers of NVIDIA's NVML, which its reader records as plain data."""

from telemetry_parsers.vendors.nvidia.nvml.parser import PARSER

__all__ = ["PARSER"]
