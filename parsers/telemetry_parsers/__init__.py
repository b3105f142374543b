"""Parsers: pure functions from the output of tools, libraries and drivers to readings."""
