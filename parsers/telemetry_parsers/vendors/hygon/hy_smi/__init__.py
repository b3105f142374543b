"""Hygon's hy-smi, also installed as rocm-smi."""

from telemetry_parsers.vendors.hygon.hy_smi.parser import PARSER

__all__ = ["PARSER"]
