"""The running daemon: start, reload and stop, and reports to systemd."""
