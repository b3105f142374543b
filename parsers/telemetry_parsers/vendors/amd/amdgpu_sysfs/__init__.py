"""Reads the files of AMD's and Hygon's drivers, which is cheaper than running rocm-smi or hy-smi."""

from telemetry_parsers.vendors.amd.amdgpu_sysfs.parser import PARSER

__all__ = ["PARSER"]
