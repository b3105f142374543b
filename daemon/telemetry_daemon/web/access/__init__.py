"""Access control, configured like Prometheus exporters."""
