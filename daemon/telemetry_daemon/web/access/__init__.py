"""Access control: the exporter-toolkit's web configuration, TLS, passwords and host names."""
