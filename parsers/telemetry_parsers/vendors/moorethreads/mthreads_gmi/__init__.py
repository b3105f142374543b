"""Moore Threads' mthreads-gmi: tables, `-q` text and `-q --json`, one module for each shape."""

from telemetry_parsers.vendors.moorethreads.mthreads_gmi.parser import PARSER

__all__ = ["PARSER"]
