"""Iluvatar: its tool."""
