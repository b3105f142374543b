"""Replaces the identities of cards, hosts and people in the output of tools."""
