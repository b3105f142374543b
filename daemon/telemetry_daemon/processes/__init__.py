"""Runs child processes: tools, short-lived processes, and workers."""
