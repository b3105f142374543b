"""Captures kept as lines, and played again."""
