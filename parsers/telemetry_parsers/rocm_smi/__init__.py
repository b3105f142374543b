"""AMD's rocm-smi, every version since ROCm 1.6."""

from telemetry_parsers.rocm_smi.parser import PARSER

__all__ = ["PARSER"]
