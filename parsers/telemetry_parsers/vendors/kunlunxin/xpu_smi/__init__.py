"""Kunlunxin's xpu-smi, which is also called xpu_smi; another tool than Intel's of that name."""

from telemetry_parsers.vendors.kunlunxin.xpu_smi.parser import PARSER

__all__ = ["PARSER"]
