"""Finds files, reads each in its own process, and queries the telemetry of the same period."""
