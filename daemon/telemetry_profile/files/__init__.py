"""Finds and reads files, and queries the telemetry of the same period."""
