"""Readers run tools, call libraries and read files. Each poll returns a Capture."""
