"""Recording rules and alerts: one source for Prometheus, Grafana and the documentation.

The alerts stand in monitor.py, presence.py, broken.py and heat_and_speed.py, the numbers that they compare with in
telemetry_exporters/judgement/thresholds.py.
"""
