"""Recording rules and alerts, one source for Prometheus, Alertmanager, Grafana and docs/alerts.md.

The numbers that they compare with stand in telemetry_exporters/judgement/thresholds.py.
"""
