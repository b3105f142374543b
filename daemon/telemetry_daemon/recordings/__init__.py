"""Recordings of `telemetry record` and the flight recorder."""
