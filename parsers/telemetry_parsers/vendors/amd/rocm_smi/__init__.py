"""AMD's rocm-smi, every version since ROCm 1.6."""

from telemetry_parsers.vendors.amd.rocm_smi.parser import PARSER

__all__ = ["PARSER"]
