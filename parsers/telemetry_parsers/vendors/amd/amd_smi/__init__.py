"""Parses amd-smi's JSON, sections, monitor table and CSV."""

from telemetry_parsers.vendors.amd.amd_smi.parser import PARSER

__all__ = ["PARSER"]
