"""Clients of daemons on this node or other nodes: HTTP, documents, and the control socket."""
