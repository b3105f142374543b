"""Recording rules and alerts: one source for Prometheus, Grafana and the documentation."""
