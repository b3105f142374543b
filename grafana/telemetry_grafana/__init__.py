"""Dashboards, recording rules and alerts as code. The files in grafana/ and deploy/prometheus/ are generated from it."""
