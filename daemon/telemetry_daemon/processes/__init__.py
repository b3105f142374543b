"""Runs child processes: tools, short-lived processes for a single request, and workers for plugins, libraries and files."""
