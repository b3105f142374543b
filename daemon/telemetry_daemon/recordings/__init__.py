"""Recordings: written by `telemetry record` and the flight recorder."""
