"""Cambricon: its tool."""
