"""Parses Huawei's npu-smi, with a module for each shape of its output."""

from telemetry_parsers.vendors.ascend.npu_smi.parser import PARSER

__all__ = ["PARSER"]
