"""What people read in a terminal: tables, and the frames of `telemetry top`."""
