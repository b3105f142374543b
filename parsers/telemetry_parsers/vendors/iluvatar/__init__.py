"""Iluvatar's tool."""
