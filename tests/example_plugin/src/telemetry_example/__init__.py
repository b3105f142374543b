"""Reads the accelerators of Acme, a company that does not exist."""
