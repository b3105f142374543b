"""The dashboards, built with Grafana's SDK."""
