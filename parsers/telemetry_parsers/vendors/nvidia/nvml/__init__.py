"""NVIDIA's NVML as its reader records it: plain data call by call, one module for each part of it."""

from telemetry_parsers.vendors.nvidia.nvml.parser import PARSER

__all__ = ["PARSER"]
