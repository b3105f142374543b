"""Clients of daemons on this node and other nodes."""
