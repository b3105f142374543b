"""Readers run tools, call libraries and read files."""
