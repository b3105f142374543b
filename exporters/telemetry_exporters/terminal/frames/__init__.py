"""Frames of `telemetry top`, as pure functions."""
