"""The examinations of `telemetry doctor`: pure functions that derive findings from collected facts."""
