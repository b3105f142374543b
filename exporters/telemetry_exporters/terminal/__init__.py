"""Output for terminals: tables, and the frames of `telemetry top`."""
