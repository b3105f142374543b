"""`telemetry top` in a terminal: the sources of its readings, its event loop, and the only module that uses curses."""
