"""Draws conclusions from the facts of all files."""
