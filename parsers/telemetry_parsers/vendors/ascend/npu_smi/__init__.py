"""Parses the output of Huawei's npu-smi. Each shape of output has its own module."""

from telemetry_parsers.vendors.ascend.npu_smi.parser import PARSER

__all__ = ["PARSER"]
