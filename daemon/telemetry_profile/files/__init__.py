"""Finds and reads files, each in its own process, and queries telemetry of the same time."""
