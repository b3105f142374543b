"""Schedules the polls of all sources, runs them, and stores their results."""
