"""Enflame: its tool."""
