"""Huawei's hccn_tool: the network port of each chip, its state, its flaps and its counters."""

from telemetry_parsers.vendors.ascend.hccn_tool.parser import PARSER

__all__ = ["PARSER"]
