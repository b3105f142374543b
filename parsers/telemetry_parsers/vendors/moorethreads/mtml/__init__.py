"""Moore Threads' management library: what the reader `mtml` asked of it."""

from telemetry_parsers.vendors.moorethreads.mtml.parser import PARSER

__all__ = ["PARSER"]
