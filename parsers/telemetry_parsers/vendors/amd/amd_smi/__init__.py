"""amd-smi: its JSON, its sections, its monitor table and CSV; one form for all of them, one table of words."""

from telemetry_parsers.vendors.amd.amd_smi.parser import PARSER

__all__ = ["PARSER"]
