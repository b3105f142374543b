"""The dashboards, and a small layer over Grafana's SDK in which a panel is one call."""
