"""What `telemetry top` shows: frames made of a state and a size, and the state after a key; no terminal is known here."""
