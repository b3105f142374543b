"""Recording rules and alerts for Prometheus, Alertmanager, Grafana and docs/alerts.md; thresholds are in telemetry_exporters/judgement/thresholds.py."""
