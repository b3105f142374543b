"""Conclusions from the facts of all files: on each rank, on the slowest rank, and why a step is slow."""
