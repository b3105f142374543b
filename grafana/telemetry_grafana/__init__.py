"""Dashboards, recording rules and alerts as code: what is generated into grafana/ and deploy/prometheus/."""
