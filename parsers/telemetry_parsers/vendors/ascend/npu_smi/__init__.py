"""Huawei's npu-smi: its tables, lists and answers of every generation, one module for each shape."""

from telemetry_parsers.vendors.ascend.npu_smi.parser import PARSER

__all__ = ["PARSER"]
