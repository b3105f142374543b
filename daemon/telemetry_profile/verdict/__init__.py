"""Draws conclusions from the facts of all files: about each rank, about the slowest rank, and why a step is slow."""
