"""`telemetry top` in a terminal: where its readings come from, its loop, and the only place that knows curses."""
