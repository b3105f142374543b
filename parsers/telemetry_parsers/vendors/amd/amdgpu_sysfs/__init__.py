"""The files of the amdgpu driver and of Hygon's, which have the readings of rocm-smi and hy-smi at low cost."""

from telemetry_parsers.vendors.amd.amdgpu_sysfs.parser import PARSER

__all__ = ["PARSER"]
