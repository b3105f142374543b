"""Captures handed on, kept for the last two minutes, and written down."""
