"""`telemetry top` in a terminal. No other code uses curses."""
