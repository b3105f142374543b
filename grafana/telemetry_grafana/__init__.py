"""Dashboards, recording rules and alerts as code, from which the files in grafana/ and deploy/prometheus/ are generated."""
