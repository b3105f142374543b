"""Parses Huawei's npu-smi: the tables, lists and answers of every generation, with a module for each shape."""

from telemetry_parsers.vendors.ascend.npu_smi.parser import PARSER

__all__ = ["PARSER"]
