"""Generates the dashboards, recording rules and alerts in grafana/ and deploy/prometheus/."""
