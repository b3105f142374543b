"""rocminfo of ROCm and of Hygon's DTK: which accelerators the HSA runtime sees, with their memory and compute units."""

from telemetry_parsers.vendors.amd.rocminfo.parser import PARSER

__all__ = ["PARSER"]
