"""Enflame's tool."""
