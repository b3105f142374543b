"""Judges devices, sources and whole nodes."""
