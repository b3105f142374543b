"""amd-smi: JSON, sections, monitor table and CSV. All shapes are brought into one form with one table of keys."""

from telemetry_parsers.vendors.amd.amd_smi.parser import PARSER

__all__ = ["PARSER"]
