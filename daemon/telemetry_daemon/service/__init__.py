"""The running daemon: start, reload and stop, and its reports to systemd and node_exporter."""
