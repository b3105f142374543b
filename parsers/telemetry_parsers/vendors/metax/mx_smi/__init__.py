"""MetaX' mx-smi, also sold as ht-smi: its tables, the lists of its options and its JSON."""

from telemetry_parsers.vendors.metax.mx_smi.parser import PARSER

__all__ = ["PARSER"]
