"""Parses amd-smi's JSON, sections, monitor table and CSV. All are converted to blocks of entries with common keys."""

from telemetry_parsers.vendors.amd.amd_smi.parser import PARSER

__all__ = ["PARSER"]
