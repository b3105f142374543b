"""Hygon's tool."""
