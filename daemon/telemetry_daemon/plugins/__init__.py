"""Finds third-party parsers, verifies them, and runs them in a separate process."""
