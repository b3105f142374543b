"""The running daemon: its start, reloads and end, and its reports to systemd and node_exporter."""
