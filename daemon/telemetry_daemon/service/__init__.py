"""The running daemon: its start, reloads and end, and what it tells systemd and node_exporter."""
