"""Recording rules and alerts. Their thresholds are in telemetry_exporters/judgement/thresholds.py."""
