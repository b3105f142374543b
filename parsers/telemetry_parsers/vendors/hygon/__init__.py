"""Hygon: its tool."""
