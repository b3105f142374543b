"""Recordings: written by `telemetry record` and the flight recorder, replayed through the installed parsers."""
