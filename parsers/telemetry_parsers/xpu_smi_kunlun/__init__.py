"""Kunlunxin's xpu-smi, which is also called xpu_smi; another tool than Intel's of that name."""

from telemetry_parsers.xpu_smi_kunlun.parser import PARSER

__all__ = ["PARSER"]
