"""Recordings: written by `telemetry record` and by the flight recorder, and played again through the parsers that are installed here."""
