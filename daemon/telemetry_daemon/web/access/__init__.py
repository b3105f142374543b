"""Access control: TLS, passwords, rate limits and host names, configured like Prometheus exporters."""
