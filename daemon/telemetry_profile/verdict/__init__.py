"""Draws conclusions from the content of all files."""
