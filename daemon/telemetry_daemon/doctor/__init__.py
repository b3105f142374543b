"""The examinations of `telemetry doctor`, which read the node and derive findings."""
