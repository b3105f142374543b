"""Prometheus exposition."""
