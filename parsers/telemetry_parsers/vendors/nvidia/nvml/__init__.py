"""NVIDIA's NVML, recorded by its reader as plain data call by call."""

from telemetry_parsers.vendors.nvidia.nvml.parser import PARSER

__all__ = ["PARSER"]
