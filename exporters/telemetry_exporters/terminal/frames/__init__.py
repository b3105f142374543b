"""Frames of `telemetry top`: pure functions from a state and a size to lines, and from a state and a key to the next state."""
