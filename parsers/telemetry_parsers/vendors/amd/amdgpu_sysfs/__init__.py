"""The files of the amdgpu driver, and of Hygon's: the cheap door to what rocm-smi and hy-smi print."""

from telemetry_parsers.vendors.amd.amdgpu_sysfs.parser import PARSER

__all__ = ["PARSER"]
