"""Cambricon's tool."""
